"""Experimental studies with bilink: settings, scripts, and the results in ``results/``.

``bilink study`` runs two of them: ``wang2018.py``, with ``searching.py``, ``tables.py`` and
``pictures.py``, and ``records.py``.  The other files are scripts of their own.
"""
