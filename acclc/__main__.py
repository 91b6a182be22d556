"""``python -m acclc`` is ``acclc``."""

from acclc.cli import main

if __name__ == "__main__":
    main()
