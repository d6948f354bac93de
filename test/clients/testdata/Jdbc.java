// What programs do with pgjdbc. Each step prints what comes of it.

import java.io.StringReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.largeobject.LargeObject;
import org.postgresql.largeobject.LargeObjectManager;

public class Jdbc {
	interface Body {
		Object run() throws Exception;
	}

	static Connection conn;

	static void step(String name, Body body) throws Exception {
		try {
			System.out.println(name + " -> " + body.run());
		} catch (SQLException e) {
			for (SQLException each = e; each != null; each = each.getNextException()) {
				System.out.println(name + " !! " + each.getSQLState() + " " + each.getMessage().replace("\n", " / "));
			}
			if (!conn.getAutoCommit()) {
				conn.rollback();
				conn.setAutoCommit(true);
			}
		}
	}

	/** Runs the body with autocommit off, and commits. */
	static Object block(int isolation, boolean readOnly, Body body) throws Exception {
		conn.setAutoCommit(false);
		conn.setTransactionIsolation(isolation);
		conn.setReadOnly(readOnly);
		Object result;
		try {
			result = body.run();
			conn.commit();
		} catch (SQLException e) {
			conn.rollback();
			throw e;
		} finally {
			conn.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
			conn.setReadOnly(false);
			conn.setAutoCommit(true);
		}
		return result;
	}

	static Object block(Body body) throws Exception {
		return block(Connection.TRANSACTION_READ_COMMITTED, false, body);
	}

	static int update(String sql, Object... args) throws SQLException {
		try (PreparedStatement s = conn.prepareStatement(sql)) {
			for (int i = 0; i < args.length; i++) {
				s.setObject(i + 1, args[i]);
			}
			return s.executeUpdate();
		}
	}

	static List<String> rows(int fetchSize, String sql, Object... args) throws SQLException {
		List<String> out = new ArrayList<>();
		try (PreparedStatement s = conn.prepareStatement(sql)) {
			s.setFetchSize(fetchSize);
			for (int i = 0; i < args.length; i++) {
				s.setObject(i + 1, args[i]);
			}
			try (ResultSet r = s.executeQuery()) {
				while (r.next()) {
					out.add(r.getString(1));
				}
			}
		}
		return out;
	}

	static Object batch(boolean fails) throws SQLException {
		try (PreparedStatement s = conn.prepareStatement("INSERT INTO entries (account, amount) VALUES (?, ?)")) {
			for (int i = 0; i < 100; i++) {
				s.setInt(1, 1 + i % 5);
				s.setInt(2, i);
				s.addBatch();
			}
			if (fails) {
				try (Statement plain = conn.createStatement()) {
					plain.addBatch("INSERT INTO entries (amount) VALUES (1)");
					plain.addBatch("INSERT INTO accounts VALUES (1, 'one', 0)");
					plain.addBatch("INSERT INTO entries (amount) VALUES (2)");
					return Arrays.toString(plain.executeBatch());
				}
			}
			return Arrays.stream(s.executeBatch()).sum();
		}
	}

	static Object largeObject() throws SQLException {
		LargeObjectManager manager = conn.unwrap(PGConnection.class).getLargeObjectAPI();
		long oid = manager.createLO();
		LargeObject o = manager.open(oid);
		o.write(new byte[10000]);
		o.seek(0);
		int n = o.read(20000).length;
		o.close();
		return n;
	}

	static Object copy(String text) throws SQLException, java.io.IOException {
		return conn.unwrap(PGConnection.class).getCopyAPI().copyIn("COPY accounts FROM STDIN", new StringReader(text));
	}

	public static void main(String[] args) throws Exception {
		String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
		Properties p = new Properties();
		p.setProperty("user", System.getenv("PGUSER"));
		p.setProperty("password", System.getenv("PGPASSWORD"));
		p.setProperty("options", System.getenv().getOrDefault("PGOPTIONS", ""));
		p.setProperty("prepareThreshold", "3");
		for (String more : args) {
			p.setProperty(more.substring(0, more.indexOf('=')), more.substring(more.indexOf('=') + 1));
		}
		conn = DriverManager.getConnection(url, p);
		run();
		conn.close();
	}

	static void run() throws Exception {
		step("select", () -> rows(0, "SELECT id || owner FROM accounts ORDER BY id"));
		step("insert", () -> update("INSERT INTO accounts VALUES (?, ?, ?)", 6, "six", 600));
		step("again", () -> update("INSERT INTO accounts VALUES (?, ?, ?)", 6, "six", 600));
		step("syntax", () -> update("SELECT FROM WHERE"));
		step("prepared", () -> {
			int n = 0;
			for (int i = 0; i < 8; i++) {
				n += update("UPDATE accounts SET balance = balance + ? WHERE id = ?", 1, 1 + i % 3);
			}
			return n;
		});
		step("block", () -> block(() -> {
			update("INSERT INTO accounts VALUES (7, 'seven', 700)");
			Savepoint s = conn.setSavepoint("a");
			try {
				update("INSERT INTO accounts VALUES (7, 'seven', 700)");
			} catch (SQLException e) {
				conn.rollback(s);
			}
			return rows(0, "SELECT count(*) FROM accounts");
		}));
		step("serializable", () -> block(Connection.TRANSACTION_SERIALIZABLE, false, () -> {
			update("UPDATE accounts SET owner = 'serial' WHERE id = ?", 2);
			return rows(0, "SHOW transaction_isolation");
		}));
		step("read only", () -> block(Connection.TRANSACTION_REPEATABLE_READ, true, () -> rows(0, "SELECT current_setting('transaction_read_only')")));
		step("write in read only", () -> block(Connection.TRANSACTION_REPEATABLE_READ, true, () -> update("DELETE FROM entries")));
		step("fetch size", () -> block(() -> rows(2, "SELECT id FROM accounts ORDER BY id")));
		step("fetch size, serializable", () -> block(Connection.TRANSACTION_SERIALIZABLE, false, () -> {
			List<String> got = rows(2, "SELECT id FROM accounts WHERE id > ? ORDER BY id", 1);
			update("INSERT INTO entries (amount) VALUES (4)");
			return got;
		}));
		step("batch", () -> batch(false));
		step("batch in a block", () -> block(() -> batch(false)));
		step("batch that fails", () -> batch(true));
		step("batch that fails in a block", () -> block(() -> batch(true)));
		step("failed block", () -> block(() -> {
			update("INSERT INTO accounts VALUES (8, 'eight', 800)");
			return update("SELECT 1/0");
		}));
		step("deferred constraint", () -> block(() -> update("INSERT INTO entries (account) VALUES (404)")));
		step("large object", () -> block(Jdbc::largeObject));
		step("copy", () -> copy("1000\tcopied\t1\n1001\tcopied\t2\n"));
		step("bad copy", () -> copy("1002\tcopied\tx\n"));
		step("several", () -> {
			try (Statement s = conn.createStatement()) {
				s.execute("INSERT INTO entries (amount) VALUES (5); SELECT count(*) FROM entries");
				return s.getUpdateCount() + " " + s.getMoreResults();
			}
		});
		step("raise", () -> rows(0, "SELECT breaks('x')"));
		step("notice", () -> {
			try (Statement s = conn.createStatement()) {
				s.execute("SELECT shout('x')");
				return s.getWarnings().getMessage();
			}
		});
		step("timeout", () -> {
			try (Statement s = conn.createStatement()) {
				s.setQueryTimeout(1);
				return s.execute("SELECT pg_sleep(60)");
			}
		});
		step("call", () -> update("CALL pay(?, ?, ?)", 5, 4, 10));
		step("generated keys", () -> {
			try (PreparedStatement s = conn.prepareStatement("INSERT INTO entries (amount) VALUES (6)", Statement.RETURN_GENERATED_KEYS)) {
				s.executeUpdate();
				ResultSet keys = s.getGeneratedKeys();
				return keys.next() && keys.getLong(1) > 0;
			}
		});
		step("metadata", () -> {
			try (ResultSet r = conn.getMetaData().getColumns(null, "public", "accounts", null)) {
				List<String> columns = new ArrayList<>();
				while (r.next()) {
					columns.add(r.getString("COLUMN_NAME") + ":" + r.getString("TYPE_NAME"));
				}
				return columns;
			}
		});
		step("notify", () -> {
			update("LISTEN news");
			update("NOTIFY news, 'some'");
			PGNotification[] got = conn.unwrap(PGConnection.class).getNotifications();
			return got.length + got[0].getParameter();
		});
		step("late block", () -> block(() -> {
			update("INSERT INTO accounts VALUES (50, 'fifty', 5000)");
			System.out.println("claim?");
			System.in.read();
			return "committed";
		}));
		step("late insert", () -> update("INSERT INTO accounts VALUES (?, ?, ?)", 51, "fifty-one", 5100));
		step("late prepared", () -> update("UPDATE accounts SET balance = balance + ? WHERE id = ?", 1, 1));
		step("late batch", () -> batch(false));
		step("late batch in a block", () -> block(() -> batch(false)));
		step("late large object", () -> block(Jdbc::largeObject));
		step("late copy", () -> copy("2000\tcopied\t1\n"));
		step("late read", () -> block(Connection.TRANSACTION_SERIALIZABLE, false, () -> rows(2, "SELECT count(*) FROM accounts")));
	}
}
