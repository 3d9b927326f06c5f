import { TokenBucket } from '../../core/policy/quota/token-bucket.ts'
import type { BridgeLimits } from '../limits.ts'
import { type PacketHeader, packetTypes } from './packet-gauge.ts'

export type RateLimits = Pick<BridgeLimits, 'mqttBurstS' | 'mqttBytesPerS' | 'mqttPacketsPerS' | 'mqttSubscribesPerS'>

/** Bytes of a fixed header, at least. */
const headerBytes = 2

/** What one client may send per second. */
export class ClientRates {
  readonly #packets: TokenBucket
  readonly #subscribes: TokenBucket
  readonly #bytes: TokenBucket

  constructor(limits: RateLimits, nowMs: number) {
    const bucket = (perS: number) => new TokenBucket({ perS, burst: perS * limits.mqttBurstS }, nowMs)
    this.#packets = bucket(limits.mqttPacketsPerS)
    this.#subscribes = bucket(limits.mqttSubscribesPerS)
    this.#bytes = bucket(limits.mqttBytesPerS)
  }

  /** @returns ms until the client's next packet may be read */
  spend({ type, bodyBytes }: PacketHeader, nowMs: number): number {
    const isSubscribe = type === packetTypes.subscribe || type === packetTypes.unsubscribe
    return Math.max(
      this.#packets.spend(1, nowMs),
      this.#subscribes.spend(isSubscribe ? 1 : 0, nowMs),
      this.#bytes.spend(headerBytes + bodyBytes, nowMs),
    )
  }
}
