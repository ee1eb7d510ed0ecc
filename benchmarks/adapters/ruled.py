"""The same column with rules: many that speak of other tools, and one by argument that speaks of this one."""

from .ours import Ours

OTHERS = [
    *(f"Bash(tool{n} *)" for n in range(20)), *(f"Read(secret{n}/**)" for n in range(20)),
    *(f"mcp__server{n}__*" for n in range(20)),
]  # fmt: skip


class Ruled(Ours):
    "Policy('assistant', rules=RuleSet(60 rules for other tools))"

    ENABLED = False  # no column of the comparison with peers
    SPEAKING: tuple[str, ...] = ()

    def registry(self, tools):
        from toolcrib.policy.rules.rule_grammar import RuleSource, parse_rule
        from toolcrib.policy.rules.ruleset import RuleSet

        rules = [parse_rule(text, "deny", RuleSource("benchmark")) for text in (*OTHERS, *self.SPEAKING)]
        return self.ToolRegistry(tools, policy=self.Policy("assistant", rules=RuleSet(rules)))


class RuledByArgument(Ruled):
    "the same, and one that looks at an argument of the tool that is called"

    SPEAKING = ("noop(mode:prod*)",)
