import type { Duplex } from 'node:stream'
import type { MqttLogin } from '../../core/wire/protocol/identity.ts'
import type { Upgrade } from '../http/server.ts'

/** Of clients, the bridge's own connection included. */
export interface BrokerCounts {
  readonly clients: number
  /** Messages that they have published, and the bytes of their payloads. */
  readonly received: number
  readonly receivedBytes: number
  /** Connections that were refused because too many clients connected at once. */
  readonly refusedConnects: number
}

/** The broker of the control plane, embedded or external, as the bridge drives it. */
export interface ControlBroker {
  /**
   * As devices reach it: mqtt://host:port, or mqtts:, of several nodes separated by commas. Undefined: they use MQTT over
   * WebSocket, on the port of HTTP.
   */
  readonly url: string | undefined
  /** Handles requests for MQTT over WebSocket. Absent: an external broker. */
  readonly upgrade?: Upgrade
  /** A separate program with its own certificate. */
  readonly external: boolean
  /** The bridge's own; undefined: its access token is the password, if authentication is required. */
  readonly login?: MqttLogin | undefined
  /** A connection of the bridge to its own broker, within this process. Absent: the bridge connects to `url`. */
  openStream?(): Duplex
  /** Lets a device connect. @returns its login throughout its grant; undefined: its access token is the password */
  admit(device: string): Promise<MqttLogin | undefined>
  /** The grant of a device has ended: ends its connection and leaves its retained state as `lost`. */
  disconnect(device: string): void
  /** Clears the retained state of a removed device, which is not connected. Absent: the bridge ignores the state. */
  clearState?(device: string): void
  /**
   * Proof of identity is required from now on: ends the connections of clients that have given none, and clears the retained
   * messages that they may have published. An external broker has required it from its start.
   */
  dropUnproven(): void
  /** Absent: an external broker, which has metrics of its own. */
  counts?(): BrokerCounts
  close(): Promise<void>
}
