"""``python -m bascule`` is the command ``bascule``."""

from bascule.cli import main

if __name__ == "__main__":
    main()
