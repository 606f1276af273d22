"""How are signatures checked at run time? An int passes for a float, as for mypy (PEP 484)."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
