import type { FleetRow } from '../../wire/protocol/http/devices.ts'
import { type ProblemKind, problemKinds } from './problems.ts'

const severe: readonly string[] = problemKinds

/** Of a kind of problem: lower is more severe. A newer bridge may report further kinds. */
export const severityOf = (kind: string): number => (severe.includes(kind) ? severe.indexOf(kind) : severe.length)

const words: Readonly<Record<string, string>> = {
  pending: 'waiting for approval',
  battery: 'battery low',
  disk: 'disk nearly full',
  'disk-full': 'disk full',
  'id-conflict': 'id used twice',
  memory: 'memory nearly full',
  errors: 'recent errors',
} satisfies Partial<Record<ProblemKind, string>>

/** How lists of devices name a kind of problem. */
export const problemWords = (kind: string): string => words[kind] ?? kind

/** A device that seems well, and that the bridge does not use, has a problem too. */
export const shownProblems = ({ state, problems, unusable }: Omit<FleetRow, 'id'>): FleetRow['problems'] =>
  state === 'ready' && unusable !== null && problems.length === 0
    ? [{ kind: `unusable: ${unusable.kind}`, detail: unusable.detail }]
    : problems

/** Rank of a device in a list: devices without problems come after those with some, revoked ones last. */
export const deviceRank = (row: FleetRow): number =>
  Math.min(severe.length + (row.state === 'revoked' ? 2 : 1), ...shownProblems(row).map(({ kind }) => severityOf(kind)))

/** Homie's word `disconnected` is too long for a column. */
export const shortState = ({ state }: Pick<FleetRow, 'state'>): string => (state === 'disconnected' ? 'off' : state)

const awayStates: readonly string[] = ['lost', 'off', 'never', 'pending', 'revoked']

/** Whether the device's last figures are out of date. */
export const isAway = (row: Pick<FleetRow, 'state'>): boolean => awayStates.includes(shortState(row))
