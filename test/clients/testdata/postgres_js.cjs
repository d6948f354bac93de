// What programs do with postgres.js. Each step prints what comes of it.
'use strict';
const readline = require('node:readline');
const { Readable } = require('node:stream');
const { pipeline } = require('node:stream/promises');
const postgres = require(`${process.argv[2]}/postgres`);

const input = readline.createInterface({ input: process.stdin });
const line = () => new Promise((resolve) => input.once('line', resolve));
const shown = (e) => ['code', 'message', 'severity', 'detail', 'hint', 'position', 'where', 'constraint_name'].map((k) => e[k] ?? '-').join(' | ');

async function step(name, f) {
	try {
		console.log(name, '->', JSON.stringify(await f()));
	} catch (e) {
		console.log(name, '!!', shown(e));
	}
}

const settled = async (...queries) =>
	(await Promise.allSettled(queries)).map((r) => (r.status === 'fulfilled' ? [r.value.command, r.value] : shown(r.reason)));

async function main() {
	const told = [];
	const connect = () => postgres({ max: 1, connection: { options: process.env.PGOPTIONS ?? '' }, onnotice: (n) => told.push([n.severity, n.message]) });
	const sql = connect();
	const insert = (id) => sql`INSERT INTO accounts VALUES (${id}, 'postgres.js', ${id}) RETURNING id`;
	const pipelined = () => settled(
		...[1, 2, 3, 4, 5].map((id) => sql`UPDATE accounts SET balance = balance + 1 WHERE id = ${id} RETURNING balance`),
		sql`SELECT 1/${0}::int`, sql`INSERT INTO entries (account, amount) VALUES (1, 1) RETURNING amount`, sql`SELECT count(*) FROM entries`);
	// A connection of postgres.js is of no use after it has copied.
	const copy = (from, to) => async () => {
		const rows = [];
		for (let i = from; i < to; i++) rows.push(`${i}\tcopied\t${i}\n`);
		const [there, back] = [connect(), connect()];
		try {
			await pipeline(Readable.from(rows), await there`COPY accounts FROM STDIN`.writable());
			let bytes = 0;
			for await (const chunk of await back`COPY (SELECT * FROM accounts WHERE id >= 1000) TO STDOUT`.readable()) bytes += chunk.length;
			return bytes;
		} finally {
			await Promise.all([there.end({ timeout: 0 }), back.end({ timeout: 0 })]);
		}
	};

	await step('select', () => sql`SELECT * FROM accounts ORDER BY id`);
	await step('insert', () => insert(6));
	await step('again', () => insert(6));
	await step('syntax', () => sql`SELECT FROM WHERE`);
	await step('simple', async () => (await sql`INSERT INTO entries (amount) VALUES (1); SELECT count(*) FROM entries`.simple()).map((r) => [r.command, r]));
	await step('pipelined', pipelined);
	await step('pipelined again', pipelined);
	await step('unprepared', () => sql.unsafe('SELECT $1::int AS n', [7]));
	await step('describe', async () => (await sql`SELECT id, owner FROM accounts WHERE id = ${1}`.describe()).columns.map((c) => [c.name, c.type]));
	await step('block', () => sql.begin(async (tx) => {
		await tx`INSERT INTO accounts VALUES (7, 'seven', 700)`;
		await tx.savepoint((sp) => sp`INSERT INTO accounts VALUES (1, 'one', 0)`).catch((e) => console.log('  savepoint', shown(e)));
		return tx`SELECT count(*) FROM accounts`;
	}));
	await step('pipelined block', () => sql.begin('isolation level serializable', (tx) => [
		tx`UPDATE accounts SET owner = 'serial' WHERE id = 1`, tx`SELECT current_setting('transaction_isolation')`]));
	await step('failed block', () => sql.begin((tx) => [tx`INSERT INTO accounts VALUES (8, 'eight', 800)`, tx`SELECT 1/0`]));
	await step('deferred constraint', () => sql.begin((tx) => tx`INSERT INTO entries (account) VALUES (404)`));
	await step('cursor', async () => {
		const got = [];
		await sql`SELECT id FROM accounts ORDER BY id`.cursor(2, (rows) => { got.push(rows.length); });
		return got;
	});
	await step('copy', copy(1000, 2000));
	await step('raise', () => sql`SELECT breaks('x')`);
	await step('call', () => sql`CALL pay(5, 4, ${10})`);
	await step('told', async () => {
		await sql`SELECT shout('x')`;
		return told;
	});
	await step('two-phase', () => sql.begin(async (tx) => {
		await tx`INSERT INTO entries (amount) VALUES (2)`;
		await tx.prepare(process.env.PGDATABASE);
	}));
	await step('its end', () => sql.unsafe(`COMMIT PREPARED '${process.env.PGDATABASE}'`));

	await step('late block', () => sql.begin(async (tx) => {
		await tx`INSERT INTO accounts VALUES (50, 'fifty', 5000)`;
		console.log('claim?');
		await line();
	}));
	await step('late insert', () => insert(51));
	await step('late pipelined', pipelined);
	await step('late pipelined block', () => sql.begin((tx) => [tx`UPDATE accounts SET owner = 'late'`, tx`SELECT 1`]));
	await step('late copy', copy(5000, 5010));
	await sql.end();
	input.close();
}

main();
