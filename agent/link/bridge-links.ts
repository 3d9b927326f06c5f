import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { DeviceTopic } from '../../core/protocol/topics.ts'
import type { BridgeLink, LinkStatus } from './bridge-link.ts'
import type { LinkSession, SessionOptions } from './link-session.ts'

/** Several bridges of one fleet, each with a broker of its own. */
export interface BridgeLinks {
  start(): void
  /** Of the bridge that the next session would be opened at. */
  status(): LinkStatus
  /** Whether any bridge hears what is said on the control plane. */
  readonly hasBridge: boolean
  /** Says it to one that hears. @returns whether its broker has it */
  publish(leaf: DeviceTopic, message: string): Promise<boolean>
  /**
   * A session at the bridge that holds what is to be resumed, else at the one with the fewest sessions; at another where
   * that one cannot give one.
   * @throws BrimError what the best of them threw
   */
  open(signal: AbortSignal, wish?: SessionOptions): Promise<LinkSession>
  close(): Promise<void>
}

export function createBridgeLinks(named: readonly BridgeLink[], logger: Logger): BridgeLinks {
  let links = [...named]
  /** Links that turned out to lead where an earlier one leads. */
  const leaving: Promise<void>[] = []

  /** Two links to one bridge would take the device's place there from each other for ever. */
  function dropDoubles(): void {
    const seen = new Set<string>()
    const doubles = links.filter((link) => {
      const { dataUrl } = link.status()
      if (dataUrl === undefined || !seen.has(dataUrl)) {
        if (dataUrl !== undefined) seen.add(dataUrl)
        return false
      }
      logger.error({ dataUrl }, 'two of the bridges named are one: the later name is dropped')
      return true
    })
    links = links.filter((link) => !doubles.includes(link))
    leaving.push(...doubles.map((link) => link.close()))
  }

  /** The best first: of those connected the one that holds a prefix, then the least busy, then the one named first; one to be avoided last. */
  function byMerit({ resume, avoid }: SessionOptions = {}): { link: BridgeLink; status: LinkStatus }[] {
    dropDoubles()
    const holder = resume?.bridge
    const rated = links.map((link) => ({ link, status: link.status() }))
    return rated.sort(
      (a, b) =>
        meritOf(b.status) - meritOf(a.status) ||
        Number(avoids(a.status, avoid)) - Number(avoids(b.status, avoid)) ||
        Number(b.status.dataUrl === holder) - Number(a.status.dataUrl === holder) ||
        (a.status.sessions ?? 0) - (b.status.sessions ?? 0),
    )
  }

  return {
    start() {
      for (const link of links) link.start()
    },
    status: () => byMerit()[0]!.status,
    get hasBridge() {
      return links.some(({ hasBridge: isHeard }) => isHeard)
    },
    publish: async (leaf, message) => (await links.find(({ hasBridge: isHeard }) => isHeard)?.publish(leaf, message)) ?? false,
    async open(signal, wish) {
      let first: unknown
      for (const { link } of byMerit(wish)) {
        try {
          return await link.open(signal, wish)
        } catch (error) {
          if (signal.aborted || !(error instanceof BrimError)) throw error
          first ??= error
        }
      }
      throw first
    },
    async close() {
      await Promise.all([...links.map((link) => link.close()), ...leaving])
    },
  }
}

function meritOf({ broker, bridge }: LinkStatus): number {
  if (bridge === 'connected') return 3
  if (bridge === 'mismatch') return 0
  return broker === 'connected' ? 2 : 1
}

const avoids = ({ dataUrl }: LinkStatus, avoid: string | undefined): boolean => avoid !== undefined && dataUrl === avoid
