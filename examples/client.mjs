// A client in another language, without any library: node examples/client.mjs SOCKET
//
// SOCKET is the path of the cluster's client socket (`pubsub-cluster status` shows it after `ipc://`). The
// program subscribes as `nora`, listens, publishes two quotes and prints what it is told. On the socket it speaks
// ZMTP 3.0 (rfc.zeromq.org/spec/23), and in its messages the protocol of docs/protocol.md.
import { connect } from "node:net";
import { randomUUID } from "node:crypto";

const socket = connect(process.argv[2]);
const me = randomUUID();
const waiting = new Map(); // request -> function that takes the answer
const listeners = new Map(); // owner -> function that takes a push
let unread = Buffer.alloc(0);
let parts = [];
let greeted = false;
let begin; // called when the other side has greeted

// -- ZMTP: a greeting of 64 bytes, a READY command, then frames ---------------------------------------

const frame = (body, flags) => {
  const head = Buffer.alloc(9);
  head[0] = flags | 2; // 1: more follow, 2: the size has eight bytes, 4: a command
  head.writeBigUInt64BE(BigInt(body.length), 1);
  return Buffer.concat([head, body]);
};
const greeting = Buffer.alloc(64);
greeting.set([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0]);
greeting.write("NULL", 12);
socket.write(greeting);

socket.on("data", (data) => {
  unread = Buffer.concat([unread, data]);
  if (!greeted && unread.length >= 64) {
    [greeted, unread] = [true, unread.subarray(64)];
    socket.write(frame(Buffer.from("\x05READY\x0bSocket-Type\0\0\0\x06DEALER", "latin1"), 4));
    begin();
  }
  while (greeted && unread.length >= 2) {
    const start = unread[0] & 2 ? 9 : 2;
    if (unread.length < start) return;
    const end = start + (start === 9 ? Number(unread.readBigUInt64BE(1)) : unread[1]);
    if (unread.length < end) return;
    const [flags, body] = [unread[0], unread.subarray(start, end)];
    unread = unread.subarray(end);
    if (flags & 4) continue; // the cluster's READY
    parts.push(body);
    if (!(flags & 1)) receive(parts.splice(0));
  }
});

// -- messages: "PSC1", a header in JSON, buffers --------------------------------------------------------

const receive = ([, header, ...buffers]) => {
  const message = JSON.parse(header);
  if (message.op === "notify") listeners.get(message.owner)?.(message);
  else waiting.get(message.request)?.(message, buffers);
};

const ask = (op, fields = {}, buffers = []) =>
  new Promise((resolve, reject) => {
    const request = `${me}-${waiting.size}`;
    const header = Buffer.from(JSON.stringify({ op, request, ...fields }));
    waiting.set(request, (answer, got) => (answer.op === "error" ? reject(answer.error) : resolve([answer, got])));
    const frames = [Buffer.from("PSC1"), header, ...buffers];
    frames.forEach((body, i) => socket.write(frame(body, i < frames.length - 1 ? 1 : 0)));
  });

const publish = async (events) => {
  const bodies = events.map((event) => Buffer.from(JSON.stringify(event)));
  const offsets = new BigInt64Array(bodies.length + 1);
  bodies.forEach((body, i) => (offsets[i + 1] = offsets[i] + BigInt(body.length)));
  const batch = { format: "json", event_count: bodies.length };
  const fields = { batch, publisher: me, batch_id: randomUUID(), answer: "counts" };
  const [answer] = await ask("publish", fields, [Buffer.from(offsets.buffer), Buffer.concat(bodies)]);
  return answer.match_count;
};

// -- what it is for -------------------------------------------------------------------------------------

await new Promise((resolve) => (begin = resolve));
await ask("hello", { client: me, version: 1 });
await ask("subscribe", { items: [{ id: `nora ${me}`, owner: "nora", expr: "name = 'ACME' AND price < 90" }] });
const told = new Promise((resolve) => listeners.set("nora", (push) => push.events.length && resolve(push)));
await ask("listen", { owner: "nora" });
console.log("matches:", await publish([{ name: "ACME", price: 120 }, { name: "ACME", price: 85.5 }]));
for (const { event, ids } of (await told).events) console.log("nora hears of", JSON.stringify(event), ids);
socket.end();
