const AGENT = "opencode";

export const Cems = async ({ client, directory }) => {
  const children = new Set(); // sessions of subagents: nobody types there
  const started = new Map(); // session -> its profile, until it is given
  const speakers = new Map(); // message -> role
  const last = new Map(); // session -> what the assistant said last

  // A model can take a subagent's session up again that an earlier run has made, and no event tells of that.
  const isChild = async (session) => {
    if (!children.has(session) && !started.has(session)) {
      const found = await client.session.get({ path: { id: session } }).catch(() => ({}));
      // One that nobody knows is nobody's who types.
      if (!found.data || found.data.parentID) children.add(session);
    }
    return children.has(session);
  };

  const about = (session) => ({ session_id: session, cwd: directory });
  const start = (session, source) => {
    const asked = ask("cems_session_start", { ...about(session), hook_event_name: "session_start", source });
    started.set(session, asked.then((answer) => answer.context ?? ""));
  };
  let made = 0;
  const part = (message, text) => ({
    id: `prt_cems${Date.now().toString(36)}${(made++).toString(36).padStart(4, "0")}`,
    sessionID: message.sessionID,
    messageID: message.id,
    type: "text",
    text,
    synthetic: true,
  });

  return {
    event: async ({ event }) => {
      const { type, properties: about_it } = event;
      if (type === "session.created") {
        if (about_it.info.parentID) children.add(about_it.info.id);
        else start(about_it.info.id, "startup");
      } else if (type === "session.compacted") {
        if (!(await isChild(about_it.sessionID))) start(about_it.sessionID, "compact");
      } else if (type === "message.updated") {
        speakers.set(about_it.info.id, about_it.info.role);
      } else if (type === "message.part.updated") {
        const { part } = about_it;
        if (part.type === "text" && speakers.get(part.messageID) === "assistant") last.set(part.sessionID, part.text);
      } else if (type === "session.idle") {
        const session = about_it.sessionID;
        if (await isChild(session)) return;
        await ask("cems_stop", { ...about(session), hook_event_name: "stop", last_assistant_message: last.get(session) ?? "" });
      } else if (type === "session.deleted") {
        await ask("cems_session_end", { ...about(about_it.info.id), hook_event_name: "session_end", source: "deleted" });
      }
    },

    "chat.message": async (input, output) => {
      const { message, parts } = output;
      if (await isChild(input.sessionID)) return;
      // A session of an earlier run has its profile in its first message.
      if (!started.has(input.sessionID)) {
        void ask("cems_session_start", { ...about(input.sessionID), hook_event_name: "session_start", source: "resume" });
        started.set(input.sessionID, "");
      }
      const prompt = parts.filter((each) => each.type === "text" && !each.synthetic).map((each) => each.text).join("\n");
      const [profile, { context }] = await Promise.all([
        started.get(input.sessionID),
        ask("cems_user_prompts_submit", { ...about(input.sessionID), hook_event_name: "prompt", prompt, turn: message.id }),
      ]);
      started.set(input.sessionID, "");
      for (const text of [profile, context]) if (text) parts.push(part(message, text));
    },

    "tool.execute.before": async (input, output) => {
      const { verdict } = await ask("cems_pre_tool_use", {
        ...about(input.sessionID),
        hook_event_name: "pre_tool",
        tool_name: input.tool,
        tool_input: output.args,
      });
      if (verdict) throw new Error(verdict.text);
    },
  };
};
