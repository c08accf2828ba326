"""Reads Helm values files and the chart's defaults as the chart would."""
