import createClient from "openapi-fetch";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { paths } from "./schema.js";

/** The lock is not certainly held any more. Stop what depends on it. */
export class Lost extends Error {}

type Client = ReturnType<typeof createClient<paths>>;

/** Whether nothing was learned: a balancer answered (502, 504), or the engine is away. */
const unknown = (status: number) => status >= 500 && status !== 501;

/**
 * Runs work while the lock is held. The signal ends when the lock is lost, or when no
 * renewal has succeeded in time. Pass it to all that takes time, and the token to the resource.
 */
export async function locked<T>(
  service: Client,
  name: string,
  ttl: string,
  work: (signal: AbortSignal, token: string) => Promise<T>,
): Promise<T> {
  const path = { name };
  const key = { "Idempotency-Key": randomUUID() }; // one for all tries: they are one claim
  const end = performance.now() + 60_000;
  let sent: number;
  let lock;
  for (;;) {
    sent = performance.now(); // before the request: the time of the answer counts from here
    try {
      const { data, error, response } = await service.POST("/v1/locks/{name}", {
        params: { path, header: key },
        body: { ttl, wait: `${Math.max(1, Math.floor(end - sent))}ms`, label: "worker.ts" },
        signal: AbortSignal.timeout(45_000), // the service answers within 30 s if its engine does
      });
      if (data?.state === "held") {
        lock = data;
        break;
      }
      if (data) continue; // it waits, and keeps its place
      if (!unknown(response.status)) throw new Error(`no lock: ${response.status} ${error?.error}`);
    } catch (problem) {
      // fetch throws these if nobody answers
      if (!(problem instanceof TypeError) && (problem as Error).name !== "TimeoutError") throw problem;
    }
    if (sent > end) throw new Error("no lock: the service does not answer");
    await sleep(500);
  }

  const handle = { Authorization: `Bearer ${lock.handle}` };
  const every = (lock.ttl_seconds * 1000) / 3;
  const ended = new AbortController(); // the work is over, or must be
  const lose = (why: string) => ended.abort(new Lost(why));
  const trust = (left: number) => setTimeout(lose, left, "no renewal has succeeded in time");
  let alarm = trust(sent + lock.trusted_seconds * 1000 - performance.now());

  const renewing = (async () => {
    for (let pause = every; ; ) {
      await sleep(pause, undefined, { signal: ended.signal });
      const sent = performance.now();
      pause = every / 5; // unless the lock is renewed: nothing was learned, ask again soon
      try {
        const { data, error, response } = await service.PUT("/v1/locks/{name}", {
          params: { path },
          headers: handle,
          signal: AbortSignal.any([ended.signal, AbortSignal.timeout(every)]),
        });
        if (data?.state === "held") {
          clearTimeout(alarm);
          alarm = trust(sent + data.trusted_seconds * 1000 - performance.now());
          pause = every;
        } else if (!unknown(response.status) && response.status !== 429) {
          return lose(error?.error ?? "it waits again");
        }
      } catch {
        // nobody answers: the alarm decides
      }
    }
  })().catch(() => {}); // the work is over

  try {
    if (!lock.token) throw new Error("the lock has no token: no resource can refuse its late holder");
    const result = await work(ended.signal, lock.token);
    ended.signal.throwIfAborted();
    return result;
  } catch (problem) {
    throw ended.signal.aborted ? ended.signal.reason : problem;
  } finally {
    clearTimeout(alarm);
    ended.abort();
    await renewing;
    await service
      .DELETE("/v1/locks/{name}", { params: { path }, headers: handle, signal: AbortSignal.timeout(5000) })
      .catch(() => {}); // unanswered: it ends by its TTL
  }
}

/** Adds 1 to the number of a resource, in many steps. */
async function add(resource: string, seconds: number, signal: AbortSignal, token: string) {
  const { count } = (await (await fenced(resource, signal, token)).json()) as { count: number };
  console.log("working");
  for (const end = performance.now() + seconds * 1000; performance.now() < end; ) {
    await sleep(10, undefined, { signal }); // a step of the work
  }
  await fenced(resource, signal, token, { method: "PUT", body: JSON.stringify({ count: count + 1 }) });
}

/**
 * A request that shows the token to the resource. A read that leads to a write shows it, too:
 * after it, the resource refuses the writes of earlier holders.
 */
async function fenced(resource: string, signal: AbortSignal, token: string, init: RequestInit = {}) {
  const answer = await fetch(resource, { ...init, headers: { "Leasehold-Token": token }, signal });
  if (answer.status === 409) throw new Lost("the resource has seen a newer token");
  if (!answer.ok) throw new Error(`${init.method ?? "GET"} failed: ${answer.status}`);
  return answer;
}

const [baseUrl, name, resource] = process.argv.slice(2);
const { ROUNDS = "1", SECONDS = "0.01", TTL = "10s", LEASEHOLD_TOKEN } = process.env;
const service = createClient<paths>({
  baseUrl,
  headers: LEASEHOLD_TOKEN ? { Authorization: `Bearer ${LEASEHOLD_TOKEN}` } : {},
});
try {
  for (let i = 0; i < Number(ROUNDS); i++) {
    await locked(service, name, TTL, (signal, token) => add(resource, Number(SECONDS), signal, token));
  }
} catch (problem) {
  if (!(problem instanceof Lost)) throw problem;
  console.log("lost:", problem.message);
  process.exitCode = 75;
}
