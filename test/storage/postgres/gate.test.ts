import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DomainError } from '../../../src/domain/errors.ts';
import { Gate } from '../../../src/storage/postgres/gate.ts';

const limits = { places: 1, maxWaiting: 2, waitTimeoutMs: 1_000 };
const overloaded = { kind: 'overloaded', message: 'too many requests wait for the database' };

/** A gate whose only place is taken. */
async function closedGate(change: Partial<typeof limits> = {}): Promise<Gate> {
  const gate = new Gate({ ...limits, ...change });
  await gate.enter();
  return gate;
}

describe('the gate to the connections', () => {
  it('lets in as many as there are places', async () => {
    const gate = new Gate({ ...limits, places: 3, maxWaiting: 0 });
    await Promise.all([gate.enter(), gate.enter(), gate.enter()]);
    await assert.rejects(gate.enter(), overloaded);
  });

  it('hands a place on in the order of arrival', async () => {
    const gate = await closedGate();
    const order: string[] = [];
    const waiting = ['first', 'second'].map(async (name) => {
      await gate.enter();
      order.push(name);
      gate.leave();
    });
    gate.leave();
    await Promise.all(waiting);
    assert.deepEqual(order, ['first', 'second']);
  });

  it('refuses one more than may wait', async () => {
    const gate = await closedGate();
    const waiting = [gate.enter(), gate.enter()];
    await assert.rejects(gate.enter(), overloaded);
    gate.leave();
    await waiting[0];
    gate.leave();
    await waiting[1];
  });

  it('refuses who has waited too long, and keeps no place for it', async () => {
    const gate = await closedGate({ waitTimeoutMs: 20 });
    await assert.rejects(gate.enter(), overloaded);
    gate.leave();
    await gate.enter();
    await assert.rejects(gate.enter(), overloaded);
  });

  it('lets go of who no longer waits, whose place in the queue is free again', async () => {
    const gate = await closedGate({ maxWaiting: 1 });
    const controller = new AbortController();
    const gone = gate.enter(controller.signal);
    controller.abort();
    await assert.rejects(gone, { kind: 'cancelled' });
    const next = gate.enter();
    gate.leave();
    await next;
  });

  it('does not let in who has left before', async () => {
    const gate = new Gate(limits);
    await assert.rejects(gate.enter(AbortSignal.abort()), { kind: 'cancelled' });
    const deadline = AbortSignal.abort(new DOMException('late', 'TimeoutError'));
    await assert.rejects(gate.enter(deadline), { kind: 'deadline-exceeded' });
    const reason = new DomainError('unavailable', 'closing');
    await assert.rejects(gate.enter(AbortSignal.abort(reason)), reason);
    await gate.enter();
  });

  it('leaves nothing on a signal that outlives the wait', async () => {
    const gate = await closedGate();
    const controller = new AbortController();
    const entered = gate.enter(controller.signal);
    gate.leave();
    await entered;
    controller.abort();
    gate.leave();
    await gate.enter();
    await assert.rejects(new Gate({ ...limits, places: 0, maxWaiting: 0 }).enter(), overloaded);
  });
});
