import { shellWord } from '../../kit/base/shell-word.ts'
import type { BridgeAnnouncement } from '../../wire/protocol/announcement.ts'

/** What a bridge has announced in the network, true or not. */
export interface FoundBridge extends Omit<BridgeAnnouncement, 'path'> {
  readonly url: string
}

export interface SearchingAgent {
  readonly id: string
  readonly fleet: string
  readonly version: string
  readonly stateDir: string
}

/**
 * Why an agent that has enrolled nowhere does not use a bridge, and the commands after which it would. A token has the address and the
 * TLS key of its bridge: what was announced decides neither.
 */
export function unusedBridge({ fleet, version }: FoundBridge, agent: SearchingAgent) {
  const enrol = [
    'at the bridge: brim bridge token create --out token',
    `here, with that file: brim agent enroll --id ${agent.id} --state-dir ${shellWord(agent.stateDir)} --token-file token`,
  ]
  const because = (why: string, ...steps: string[]) => ({ why, next: steps.join('; ') })
  if (!isCompatible(version, agent.version))
    return because(`its release is ${version}, this agent's ${agent.version}`, 'update one of them', ...enrol)
  if (fleet !== agent.fleet)
    return because(`its fleet is ${fleet}, this agent's ${agent.fleet}`, ...enrol, `then run the agent with --fleet ${fleet}`)
  return because('this device is not enrolled there', ...enrol)
}

/** Releases work with the one before. */
function isCompatible(one: string, other: string): boolean {
  const [[major, minor = 0], [otherMajor, otherMinor = 0]] = [one.split('.').map(Number), other.split('.').map(Number)]
  return major === otherMajor && Math.abs(minor - otherMinor) <= 1
}
