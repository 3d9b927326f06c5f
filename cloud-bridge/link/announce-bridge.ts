import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { sampledWarnings } from '../../core/kit/base/sampled-warnings.ts'
import { type MulticastAddress, openMulticastDns } from '../../core/kit/listen/multicast-dns.ts'
import { type BridgeAnnouncement, bridgeService } from '../../core/wire/protocol/announcement.ts'

/** A label of DNS has at most 63 bytes. */
const maxNameChars = 50

export interface AnnouncedBridge {
  /** Of HTTP. */
  readonly port: number
  /** Read again after `update`. */
  readonly describe: () => BridgeAnnouncement
  readonly at: MulticastAddress
  readonly clock: Clock
  readonly logger: Logger
}

/**
 * Announces a bridge by multicast DNS. Where that fails, it is logged and the bridge goes on.
 * @returns `update`: the TLS key has changed; `close` takes the announcement back
 */
export async function announceBridge({ port, describe, at, clock, logger }: AnnouncedBridge) {
  // A response that cannot be sent fails at each question.
  const warn = sampledWarnings(logger, clock)
  const mdns = await openMulticastDns(at, (err) => warn({ err }, 'bridge not announced by multicast DNS'))
  // Two bridges of a network may have one id, and one machine.
  const name = `${describe().id.slice(0, maxNameChars)}-${randomBytes(4).toString('hex')}`
  const host = `${hostname().split('.')[0]}.local`
  const publish = () => mdns.publish({ name, host, type: bridgeService, port, txt: describe(), probe: false })
  publish()
  return {
    update: () => mdns.unpublishAll(publish),
    close: () => new Promise<void>((resolve) => mdns.unpublishAll(() => mdns.destroy(resolve))),
  }
}
