"""Importers: one module per format in ``readers``, and the cleaning that all of them share."""
