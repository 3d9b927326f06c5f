import { isIP } from 'node:net'
import type { Clock } from '../../core/kit/base/clock.ts'
import { type MulticastAddress, openMulticastDns } from '../../core/kit/listen/multicast-dns.ts'
import type { FoundBridge } from '../../core/policy/link/found-bridge.ts'
import { BridgeAnnouncement, bridgeService } from '../../core/wire/protocol/announcement.ts'

/** Answers that are looked at, valid or not: a flood ends the search. */
const maxAnswers = 64

/**
 * Asks by multicast DNS for bridges in this network. Nothing is sent to what answers.
 * @returns none where multicast does not work here
 */
export async function findBridges(
  at: MulticastAddress,
  forMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<readonly FoundBridge[]> {
  const done = new AbortController()
  const mdns = await openMulticastDns(at, () => done.abort())
  const browser = mdns.find({ type: bridgeService }, () => {
    if (browser.services.length >= maxAnswers) done.abort()
  })
  await clock.sleep(forMs, AbortSignal.any([done.signal, signal])).catch(() => {})
  await new Promise((resolve) => mdns.destroy(() => resolve(undefined)))
  return browser.services.slice(0, maxAnswers).flatMap(({ txt, port, referer }) => {
    const read = BridgeAnnouncement.safeParse(txt)
    if (!read.success || !referer || isIP(referer.address) === 0) return []
    const { path, ...bridge } = read.data
    // The address that the answer came from: names could lead anywhere.
    const host = isIP(referer.address) === 6 ? `[${referer.address}]` : referer.address
    return { ...bridge, url: `${bridge.pin === undefined ? 'http' : 'https'}://${host}:${port}${path}` }
  })
}
