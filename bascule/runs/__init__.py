"""Runs: their event log, and the live output that readers follow."""

from bascule.runs._detached import start_detached
from bascule.runs._live import LiveRun, shown_text
from bascule.runs._log import RunLog
from bascule.runs._output import AgentOutput, Driver, RunExtras

__all__ = ["AgentOutput", "Driver", "LiveRun", "RunExtras", "RunLog", "shown_text", "start_detached"]
