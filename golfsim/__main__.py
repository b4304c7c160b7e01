"""`python -m golfsim` is `golfsim`."""

from golfsim.cli.app import main

if __name__ == "__main__":
    main()
