"""The workloads: frozen values; the same name and seed give the same bytes everywhere."""
