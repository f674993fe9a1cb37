"""Charts and pages of stored results, and tables that no verb describes yet; nothing here measures."""
