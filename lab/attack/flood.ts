import { setTimeout as sleep } from 'node:timers/promises'

/** A bridge and an agent under attack; all addresses are on loopback. */
export interface AttackTarget {
  readonly mqttUrl: string
  readonly httpUrl: string
  readonly dataUrl: string
  /** API of the honest device's agent; absent: the attacker is not on that device. */
  readonly agentUrl?: string | undefined
  /** Device that the attacker has enrolled, and its access token; absent: the attacker has proven no identity. */
  readonly device?: { readonly id: string; readonly token: string } | undefined
  readonly apiKey?: string | undefined
}

/** One attack that test/security and `brim bench attack` run. It is bounded, and ends when the signal is aborted. */
export interface Flood {
  readonly name: string
  /** Of the attacker's API key; absent: viewer. */
  readonly keyRole?: 'client' | undefined
  /** @returns what it did, such as connections opened and refused */
  run(target: AttackTarget, signal: AbortSignal): Promise<Readonly<Record<string, number>>>
}

/**
 * Repeats an attack, each time on a new connection, until the signal is aborted.
 * @param pauseMs before the next attempt, so that the flood itself needs little CPU
 */
export async function repeatAttack(
  attack: (connections: number) => Promise<void>,
  signal: AbortSignal,
  pauseMs = 100,
): Promise<{ readonly connections: number; readonly refused: number }> {
  let [connections, refused] = [0, 0]
  while (!signal.aborted) {
    try {
      connections += 1
      await attack(connections)
    } catch {
      // Refused or disconnected: that is what a bridge should do.
      refused += 1
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => {})
  }
  return { connections, refused }
}
