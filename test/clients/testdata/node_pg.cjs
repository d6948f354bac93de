// What programs do with node-pg. Each step prints what comes of it.
'use strict';
const readline = require('node:readline');
const { Client, Pool } = require(`${process.argv[2]}/pg`);

const input = readline.createInterface({ input: process.stdin });
const line = () => new Promise((resolve) => input.once('line', resolve));
const shown = (e) => ['code', 'message', 'severity', 'detail', 'hint', 'position', 'where', 'constraint'].map((k) => e[k] ?? '-').join(' | ');

async function step(name, f) {
	try {
		console.log(name, '->', JSON.stringify(await f()));
	} catch (e) {
		console.log(name, '!!', shown(e));
	}
}

async function block(client, ...statements) {
	await client.query('BEGIN');
	try {
		let result;
		for (const s of statements) result = await client.query(s);
		await client.query('COMMIT');
		return result.rows;
	} catch (e) {
		await client.query('ROLLBACK');
		throw e;
	}
}

// settled waits for queries that were sent without waiting for each other.
const settled = async (...queries) =>
	(await Promise.allSettled(queries)).map((r) => (r.status === 'fulfilled' ? [r.value.command, r.value.rows] : shown(r.reason)));

async function main() {
	const client = new Client();
	const told = [];
	client.on('notice', (n) => told.push([n.severity, n.message]));
	client.on('notification', (n) => told.push([n.channel, n.payload]));
	await client.connect();
	const insert = (id) => client.query('INSERT INTO accounts VALUES ($1, $2, $3) RETURNING id', [id, 'node', id]);
	const named = (id) => client.query({ name: 'named', text: 'UPDATE accounts SET balance = balance + 1 WHERE id = $1 RETURNING balance', values: [id] });
	const unawaited = () => settled(
		client.query('BEGIN'), client.query('INSERT INTO entries (amount) VALUES (7)'), client.query('SELECT 1/0'), client.query('COMMIT'),
		named(1), client.query('BEGIN ISOLATION LEVEL SERIALIZABLE'), named(2), client.query('COMMIT'), client.query('SELECT count(*) FROM entries'));

	await step('select', async () => (await client.query('SELECT * FROM accounts ORDER BY id')).rows);
	await step('insert', async () => (await insert(6)).rows);
	await step('again', async () => (await insert(6)).rows);
	await step('syntax', () => client.query('SELECT FROM WHERE'));
	await step('several', async () => (await client.query('INSERT INTO entries (amount) VALUES (1); SELECT count(*) FROM entries')).map((r) => [r.command, r.rows]));
	await step('named', async () => [(await named(1)).rows, (await named(2)).rows]);
	await step('rows as arrays', async () => (await client.query({ text: 'SELECT 1, $1::text', values: ['x'], rowMode: 'array' })).rows);
	await step('block', () => block(client, "INSERT INTO accounts VALUES (7, 'seven', 700)", 'SELECT count(*) FROM accounts'));
	await step('failed block', () => block(client, "INSERT INTO accounts VALUES (8, 'eight', 800)", 'SELECT 1/0'));
	await step('deferred constraint', () => block(client, 'INSERT INTO entries (account) VALUES (404)'));
	await step('unawaited', unawaited);
	await step('raise', () => client.query("SELECT breaks('x')"));
	await step('copy without data', () => client.query('COPY accounts FROM STDIN'));
	await step('after that', async () => (await client.query('SELECT 1 AS one')).rows);
	await step('call', async () => (await client.query('CALL pay($1, $2, $3)', [5, 4, 10])).command);
	await step('told', async () => {
		await client.query("LISTEN news; SELECT shout('x')");
		await client.query("NOTIFY news, 'some'");
		await client.query('SELECT 1');
		return told;
	});
	await step('pool', async () => {
		const pool = new Pool({ max: 3 });
		const results = await Promise.all([1, 2, 3, 4, 5].map((id) => pool.query('UPDATE accounts SET owner = $2 WHERE id = $1', [id, 'pooled'])));
		await pool.end();
		return results.map((r) => r.rowCount);
	});

	await step('late block', async () => {
		await client.query('BEGIN');
		await insert(50);
		console.log('claim?');
		await line();
		return (await client.query('COMMIT')).command;
	});
	await step('late insert', async () => (await insert(51)).rows);
	await step('late unawaited', unawaited);
	await step('late failure', () => block(client, "INSERT INTO accounts VALUES (52, 'x', 1)"));
	await step('late call', async () => (await client.query('CALL pay($1, $2, $3)', [5, 4, 10])).command);
	await client.end();
	input.close();
}

main();
