package clients_test

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func (c *pgxClient) batch(statements ...string) (any, error) {
	b := &pgx.Batch{}
	for _, s := range statements {
		b.Queue(s)
	}
	results := c.conn.SendBatch(c.ctx, b)
	var tags []string
	for range statements {
		tag, err := results.Exec()
		if err != nil {
			return tags, errors.Join(err, results.Close())
		}
		tags = append(tags, tag.String())
	}
	return tags, results.Close()
}

func (c *pgxClient) batchWithBlock() (any, error) {
	statements := []string{"BEGIN", "INSERT INTO entries (amount) VALUES (4)", "COMMIT", "INSERT INTO entries (amount) VALUES (5)"}
	if c.joins {
		statements = statements[:3]
	}
	return c.batch(statements...)
}

func (c *pgxClient) copyFrom(from, to int) (any, error) {
	return c.conn.CopyFrom(c.ctx, pgx.Identifier{"accounts"}, []string{"id", "owner", "balance"},
		pgx.CopyFromSlice(to-from, func(i int) ([]any, error) { return []any{from + i, "copied", i}, nil }))
}

func (c *pgxClient) others() {
	c.step("batch", func() (any, error) {
		return c.batch("INSERT INTO entries (amount) VALUES (3)", "UPDATE accounts SET owner = 'b' WHERE id = 2", "SELECT 1")
	})
	c.step("batch with a block", c.batchWithBlock)
	c.step("batch that fails", func() (any, error) {
		return c.batch("INSERT INTO entries (amount) VALUES (6)", "SELECT 1/0", "INSERT INTO entries (amount) VALUES (7)")
	})
	c.step("copy", func() (any, error) { return c.copyFrom(1000, 3000) })
	c.step("copy again", func() (any, error) { return c.copyFrom(2999, 5000) })
	c.step("copy out", func() (any, error) {
		tag, err := c.conn.PgConn().CopyTo(c.ctx, io.Discard, "COPY accounts TO STDOUT")
		return tag, err
	})
	c.step("large object", c.largeObject)
	c.step("pipeline", c.pipeline)
	c.step("notify", func() (any, error) {
		if _, err := c.exec("LISTEN news"); err != nil {
			return nil, err
		}
		if _, err := c.exec("SELECT pg_notify('news', $1)", "some"); err != nil {
			return nil, err
		}
		n, err := c.conn.WaitForNotification(c.ctx)
		if err != nil {
			return nil, err
		}
		return n.Channel + n.Payload, nil
	})
	c.step("timeout", func() (any, error) { return c.exec("SET statement_timeout = 50; SELECT pg_sleep(60)") })
	c.step("cancelled", c.cancelled)
}

// cancelled asks the server to end a statement that runs.
func (c *pgxClient) cancelled() (any, error) {
	asked := make(chan error, 1)
	ask := time.AfterFunc(200*time.Millisecond, func() { asked <- c.conn.PgConn().CancelRequest(c.ctx) })
	_, err := c.conn.Exec(c.ctx, "SELECT pg_sleep(60)")
	if ask.Stop() {
		return nil, err // it was refused before
	}
	return nil, errors.Join(<-asked, err)
}

func (c *pgxClient) largeObject() (any, error) {
	return c.inTx(pgx.TxOptions{}, func(tx pgx.Tx) error {
		los := tx.LargeObjects()
		oid, err := los.Create(c.ctx, 0)
		if err != nil {
			return err
		}
		lo, err := los.Open(c.ctx, oid, pgx.LargeObjectModeRead|pgx.LargeObjectModeWrite)
		if err != nil {
			return err
		}
		_, err = lo.Write(make([]byte, 10000))
		return err
	})
}

// pipeline sends what pgx's own API does not: Flush without Sync, and a Sync in
// the middle.
func (c *pgxClient) pipeline() (any, error) {
	p := c.conn.PgConn().StartPipeline(c.ctx)
	var said []string
	p.SendQueryParams("INSERT INTO entries (amount) VALUES ($1) RETURNING amount", [][]byte{[]byte("8")}, nil, nil, nil)
	p.SendFlushRequest()
	if err := p.Flush(); err != nil {
		return nil, err
	}
	said = append(said, c.result(p))
	p.SendQueryParams("SELECT 1/0", nil, nil, nil, nil)
	p.SendQueryParams("INSERT INTO entries (amount) VALUES (9)", nil, nil, nil, nil)
	if err := p.Sync(); err != nil {
		return nil, err
	}
	p.SendQueryParams("INSERT INTO entries (amount) VALUES (10)", nil, nil, nil, nil)
	if err := p.Sync(); err != nil {
		return nil, err
	}
	for range 4 {
		said = append(said, c.result(p))
	}
	return said, p.Close()
}

// result is the next of a pipeline, in a word.
func (c *pgxClient) result(p *pgconn.Pipeline) string {
	results, err := p.GetResults()
	if err != nil {
		return err.Error()
	}
	r, ok := results.(*pgconn.ResultReader)
	if !ok {
		return fmt.Sprintf("%T", results)
	}
	read := r.Read()
	return fmt.Sprintf("%v %d %v", read.CommandTag, len(read.Rows), read.Err)
}
