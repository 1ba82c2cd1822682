"""One tool, one agent, one workflow, and a memory. Needs no key and no service.

Serve it over HTTP:      bascule serve examples/quickstart.py
Or over stdio:           bascule run examples/quickstart.py
"""

from pydantic import BaseModel

from bascule import Agent, Bascule, Workflow, step, tool
from bascule.workflows import StepContext


@tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


class Order(BaseModel):
    """What somebody wants to buy."""

    item: str
    quantity: int
    price: float


@step
def total(ctx: StepContext[Order]) -> float:
    """Work out what the order costs."""
    return ctx.input.quantity * ctx.input.price


@step
def summary(ctx: StepContext[Order]) -> str:
    """Say what is ordered."""
    return f"{ctx.input.quantity} x {ctx.input.item}"


@step
def receipt(ctx: StepContext[dict[str, object]]) -> str:
    """Put both together."""
    return f"{ctx.input['summary']}: {ctx.input['total']:.2f}"


tutor = Agent("tutor", description="Explains sums.", instructions="Be brief.", tools=[add])

order = Workflow("order", description="Writes a receipt.", input=Order).parallel([total, summary]).then(receipt)

app = Bascule("quickstart", tools=[add], agents=[tutor], workflows=[order])
