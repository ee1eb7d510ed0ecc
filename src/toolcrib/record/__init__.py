"""Record what was done: the audit log, the journal for undo, pending approvals, the state folder."""
