"""`python -m golfsim` is `golfsim`."""

from golfsim.cli.commands import main

if __name__ == "__main__":
    main()
