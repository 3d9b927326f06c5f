import type { DeviceState } from '../../core/protocol/messages.ts'

export interface PresenceSubscriber {
  /** A device published a new state, or is lost. */
  onDeviceState(device: string, state: DeviceState): void
  /** The broker is not connected: the bridge receives no messages of devices. */
  onBrokerLost(): void
}

/** Which devices are there, for the parts that depend on it. Subscribers are told in the order of their subscription. */
export class PresenceFeed implements PresenceSubscriber {
  readonly #subscribers: PresenceSubscriber[] = []

  subscribe(subscriber: PresenceSubscriber): void {
    this.#subscribers.push(subscriber)
  }

  onDeviceState(device: string, state: DeviceState): void {
    for (const subscriber of this.#subscribers) subscriber.onDeviceState(device, state)
  }

  onBrokerLost(): void {
    for (const subscriber of this.#subscribers) subscriber.onBrokerLost()
  }
}
