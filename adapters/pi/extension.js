const AGENT = "pi";

const textOf = (content) =>
  typeof content === "string"
    ? content
    : (content ?? []).filter((part) => part.type === "text").map((part) => part.text).join("\n");

export default function cems(pi) {
  let profile = "";
  let typed = { text: "", source: "" };

  const about = (ctx) => ({
    session_id: ctx.sessionManager.getSessionId(),
    transcript_path: ctx.sessionManager.getSessionFile() ?? "",
    cwd: ctx.cwd,
  });
  // What is told of nothing waits for: it is sent, and the agent goes on.
  const tell = (script, event) => void ask(script, event);

  const start = async (source, ctx) => {
    profile = (await ask("cems_session_start", { ...about(ctx), hook_event_name: "session_start", source })).context ?? "";
  };
  pi.on("session_start", (event, ctx) => start(event.reason, ctx));
  pi.on("session_compact", (_event, ctx) => start("compact", ctx));

  pi.on("input", (event) => {
    typed = { text: event.text, source: event.source };
  });

  pi.on("before_agent_start", async (event, ctx) => {
    // The same text in each turn: Pi sends only what changed in the system prompt.
    if (profile) event.systemPromptOptions.sections["cems"] = profile;
    if (event.messageType !== "user") return;
    const { context } = await ask("cems_user_prompts_submit", {
      ...about(ctx),
      hook_event_name: "prompt",
      prompt: event.prompt,
      typed: typed.text,
      machine: typed.source === "extension",
    });
    if (context) return { message: { customType: "cems", content: context, display: false } };
  });

  pi.on("tool_call", async (event, ctx) => {
    const { verdict } = await ask("cems_pre_tool_use", {
      ...about(ctx),
      hook_event_name: "pre_tool",
      tool_name: event.toolName,
      tool_input: event.input,
    });
    if (!verdict) return;
    if (verdict.severity === "confirm" && ctx.hasUI && (await ctx.ui.confirm("CEMS", verdict.text))) return;
    return { block: true, reason: verdict.text };
  });

  pi.on("agent_end", (event, ctx) => {
    const said = event.messages.filter((message) => message.role === "assistant").map((message) => textOf(message.content));
    tell("cems_stop", { ...about(ctx), hook_event_name: "stop", last_assistant_message: said.filter(Boolean).at(-1) ?? "" });
  });

  pi.on("session_shutdown", async (event, ctx) => {
    await ask("cems_session_end", { ...about(ctx), hook_event_name: "session_end", source: event.reason });
  });
}
