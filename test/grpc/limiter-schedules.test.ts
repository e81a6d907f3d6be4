import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { Metadata, type ServerUnaryCall, status } from '@grpc/grpc-js';
import { Access } from '../../src/domain/access.ts';
import { DomainError } from '../../src/domain/errors.ts';
import { unary } from '../../src/grpc/call.ts';
import { testSchedules } from '../support/scheduler.ts';

const maxInFlight = 3;

testSchedules(
  'calls are rejected only while all places are taken, and give their places back',
  async (scheduler) => {
    const gate = { inFlight: 0, maxInFlight };
    let running = 0;
    const ended = (outcome: status) => {
      running -= 1;
      if (outcome !== status.OK) throw new DomainError('unavailable', 'the store is not available');
      return 'response';
    };
    const handle = () => {
      running += 1;
      const outcome = scheduler.oneIn(3) ? status.UNAVAILABLE : status.OK;
      return scheduler.oneIn(3) ? ended(outcome) : scheduler.turn().then(() => ended(outcome));
    };
    const options = { access: new Access('none', []), gate, observe: () => undefined };
    const serve = unary<string, string>('read', options, handle);
    const call = async () => {
      const isFull = running === maxInFlight;
      const message = Object.assign(new EventEmitter(), { request: '', metadata: new Metadata() });
      const { promise, resolve } = Promise.withResolvers<unknown>();
      let responses = 0;
      serve(message as unknown as ServerUnaryCall<string, string>, (error) => {
        responses += 1;
        resolve(error?.code ?? status.OK);
      });
      assert.ok(running <= maxInFlight);
      assert.equal((await promise) === status.RESOURCE_EXHAUSTED, isFull);
      assert.equal(responses, 1);
    };
    const calls: Promise<void>[] = [];
    for (let n = 0; n < 2 + scheduler.random.below(12); n += 1) {
      calls.push(call());
      if (scheduler.oneIn(3)) await scheduler.turn();
    }
    await Promise.all(calls);
    assert.equal(gate.inFlight, 0);
    assert.equal(running, 0);
  },
);
