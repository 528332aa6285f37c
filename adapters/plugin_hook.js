import { spawn } from "node:child_process";

const HOOK = "{cems-hook}";
// The hook program gives up after a second by itself; this is for one that cannot.
const WAIT_MS = 3000;

// Runs one hook of ours and gives what it answered, {} for nothing: memory may fail, the agent may not.
function ask(script, event) {
  return new Promise((resolve) => {
    let said = "";
    let child;
    const timer = setTimeout(() => {
      child?.kill();
      resolve({});
    }, WAIT_MS);
    const end = (answer) => {
      clearTimeout(timer);
      resolve(answer);
    };
    try {
      child = spawn(HOOK, [script], { cwd: event.cwd, stdio: ["pipe", "pipe", "ignore"] });
      child.on("error", () => end({}));
      child.on("close", () => {
        try {
          end(JSON.parse(said));
        } catch {
          end({});
        }
      });
      child.stdout.setEncoding("utf8");
      child.stdout.on("data", (part) => (said += part));
      child.stdin.on("error", () => {});
      child.stdin.end(JSON.stringify({ cems_agent: AGENT, ...event }));
    } catch {
      end({});
    }
  });
}
