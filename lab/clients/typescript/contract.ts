// What the generated types and the service say to each other: every request once.
//
//	contract.js SERVICE TOKEN-OF-APP TOKEN-OF-OPERATOR
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

const [baseUrl, appToken, operatorToken] = process.argv.slice(2);
const client = (secret: string) =>
  createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${secret}` } });
const app = client(appToken);
const operator = client(operatorToken);
const params = { path: { name: "contract/a b" } };
const { name } = params.path;

function got<T>(answer: { data?: T; error?: unknown; response: Response }, status: number): T {
  assert.equal(answer.response.status, status, JSON.stringify(answer.error));
  assert.ok(answer.data);
  return answer.data;
}

function refused<E>(answer: { data?: unknown; error?: E; response: Response }, status: number): E {
  assert.equal(answer.response.status, status, JSON.stringify(answer.data));
  assert.ok(answer.error);
  return answer.error;
}

got(await app.GET("/readyz"), 200);
assert.equal(got(await app.GET("/v1/openapi.json"), 200).openapi, "3.1.0");

// lock, busy, wait
const first = got(await app.POST("/v1/locks/{name}", { params, body: { ttl: "20s", label: "first" } }), 200);
assert.ok(first.state === "held");
assert.equal(first.name, name);
assert.ok(first.trusted_seconds > 0 && first.trusted_seconds <= first.ttl_seconds && first.ttl_seconds === 20);
const busy = refused(await operator.POST("/v1/locks/{name}", { params }), 409);
assert.ok("holders" in busy);
assert.deepEqual(busy.holders?.map((h) => [h.owner.host, h.owner.label]), [["app", "first"]]);

const header = { "Idempotency-Key": randomUUID() };
const waits = { params: { ...params, header }, body: { ttl: "20s", wait: "20s" } };
const late = operator.POST("/v1/locks/{name}", waits);
while (got(await app.GET("/v1/queues/{name}", { params }), 200).claims.length < 2) await sleep(10);
const why = got(await app.GET("/v1/why/{name}", { params }), 200);
assert.deepEqual(why.holders.map((h) => h.owner.label), ["first"]);
assert.equal(why.cycle, false);
assert.equal(got(await client(first.handle).DELETE("/v1/locks/{name}", { params }), 200).state, "released");
const second = got(await late, 200);
assert.ok(second.state === "held");
assert.ok(BigInt(second.token ?? 0) > BigInt(first.token ?? 0));
const again = got(await operator.POST("/v1/locks/{name}", waits), 200);
assert.equal(again.handle, second.handle, "the same key is the same claim");

// renew, queues
const holder = client(second.handle);
const renewed = got(await holder.PUT("/v1/locks/{name}", { params, body: { ttl: "30s" } }), 200);
assert.ok(renewed.state === "held" && renewed.ttl_seconds === 30 && renewed.token === second.token);
got(await holder.PUT("/v1/locks"), 200);
const { queues } = got(await app.GET("/v1/queues", { params: { query: { prefix: "contract/" } } }), 200);
assert.deepEqual(queues.map((q) => q.claims.map((c) => [c.token, c.state])), [[[second.token, "held"]]]);

// revoke, lost
const body = { name, ticket: queues[0].claims[0].ticket };
assert.match(refused(await app.POST("/v1/revoke", { body }), 403).error, /revoke/);
got(await operator.POST("/v1/revoke", { body }), 200);
const lost = refused(await holder.PUT("/v1/locks/{name}", { params }), 410);
assert.ok("reason" in lost && lost.reason === "revoked");
await holder.DELETE("/v1/locks/{name}", { params });
refused(await operator.POST("/v1/revoke", { body }), 404);

// the name in the body; release, and once more
const third = got(await app.POST("/v1/locks", { body: { name: "../contract" } }), 200);
got(await client(third.handle).DELETE("/v1/locks"), 200);
const twice = refused(await client(third.handle).DELETE("/v1/locks"), 410);
assert.ok("reason" in twice && twice.reason === "ended");

refused(await client("lht_nobody").POST("/v1/locks/{name}", { params }), 401);
console.log("kept");
