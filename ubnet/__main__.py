"""``python -m ubnet`` is the command ``ubnet``."""

from ubnet.cli.main import main

if __name__ == "__main__":
    main()
