import { channel } from 'node:diagnostics_channel';
import type { ServiceEvent } from './events.ts';

/** `node:diagnostics_channel` names, by the type of event: for tools that were not handed an observer. */
const channels = {
  listening: channel('users-service:listening'),
  request: channel('users-service:request'),
  refused: channel('users-service:refused'),
  failure: channel('users-service:failure'),
  reloaded: channel('users-service:reloaded'),
  draining: channel('users-service:draining'),
  closed: channel('users-service:closed'),
} satisfies Record<ServiceEvent['type'], unknown>;

/** Publishes an event on its channel; without subscribers this is one comparison. */
export function publish(event: ServiceEvent): void {
  const { [event.type]: target } = channels;
  if (target.hasSubscribers) target.publish(event);
}
