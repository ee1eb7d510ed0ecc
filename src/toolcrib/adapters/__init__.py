"""Our tools in other agent frameworks: one file for each framework, and an extra of the same name.

Each file gives the tools of an open `Toolbox` in the form of its framework. Every call goes through the toolbox, so its
policy, approvals and record hold there, too. `questions` passes the answers of the framework's own pause on to them.
"""
