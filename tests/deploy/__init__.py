"""What is in `deploy/`: units, the chart, alerts and the dashboard say what the product understands."""
