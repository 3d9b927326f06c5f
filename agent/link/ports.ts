import type { TLSSocket } from 'node:tls'
import type { MqttLogin } from '../../core/wire/protocol/identity.ts'
import type { DeviceState } from '../../core/wire/protocol/messages.ts'
import type { DeviceTopic } from '../../core/wire/protocol/topics.ts'

/** The device's logins at the bridge where it enrolled. */
export interface LinkCredentials {
  /** Id of that bridge: announcements of other bridges are ignored. */
  readonly bridge: string
  /** URL of its data plane: the configured one, else at the address where the device enrolled. */
  readonly dataUrl: string
  /** URL of its own broker on the port of HTTP, where some bridges have it alone; undefined: it uses another broker. */
  readonly webSocketBroker?: string | undefined
  /**
   * A bearer token for a new connection to `url`.
   * @throws BrimError NOT_AUTHORIZED, DEVICE_CLONED, BRIDGE_UNREACHABLE, IDENTITY_INVALID if `url` is not that bridge
   */
  token(url: string, signal: AbortSignal): Promise<string>
  /** The login for a new connection to the broker. @throws as `token` does */
  mqttLogin(signal: AbortSignal): Promise<MqttLogin>
  /**
   * A TLS socket to a bridge whose key is pinned; undefined where the transport opens its own socket.
   * @throws BrimError IDENTITY_INVALID, BRIDGE_UNREACHABLE
   */
  dial(url: string, signal: AbortSignal): Promise<TLSSocket | undefined>
}

/** Publishes below the device's own topic on one connection. Both resolve to false if the connection closes first. */
export interface Publisher {
  /**
   * @param bridge to which alone the message is sent, if it has topics of its own
   * @returns whether the broker has acknowledged the message
   */
  publish(leaf: DeviceTopic, message: string, bridge?: string): Promise<boolean>
  /** Publishes the retained state again. @returns whether the broker has acknowledged it */
  publishState(): Promise<boolean>
}

/** A part of the agent that uses the control plane of one broker. */
export interface ControlService {
  /**
   * Handlers of the topics that the service subscribes. A message is acknowledged when its handler returns. If it throws,
   * the message stays unacknowledged and the connection is closed, so that the bridge sends it again.
   */
  readonly handlers?: Partial<Record<DeviceTopic, (payload: Uint8Array) => void>>
  /** Fields that the service adds to the device's retained state. */
  readonly stateFields?: () => Partial<Pick<DeviceState, 'state' | 'jobs'>>
  /** Receives the publisher of each new connection, and undefined when that connection has closed. */
  readonly onConnection?: (publisher: Publisher | undefined) => void
}
