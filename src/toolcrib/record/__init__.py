"""What was done: the audit log, the journal behind undo, pending approvals, the state folder."""
