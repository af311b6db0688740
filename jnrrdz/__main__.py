"""`python -m jnrrdz` is the command `jnrrdz`."""

from jnrrdz.cli import main

if __name__ == "__main__":  # workers import this module under another name
    main()
