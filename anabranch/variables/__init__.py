"""Variables: plain values by name, of a tenant, set by people, and of a workflow, which its runs write as well."""
