"""Run the command line with `python -m golfsim`."""

from golfsim.cli.app import main

if __name__ == "__main__":
    main()
