"""API keys: authentication, tenants and roles."""
