import { stepDefaults } from '../../../core/policy/serving/step-defaults.ts'
import { policyNames } from '../../../core/policy/tokenflow/named-policies.ts'
import type { ServingPolicyName } from '../../baselines/serving-policies.ts'

/** A bridge as it is measured. */
interface Server {
  readonly policy: ServingPolicyName
  /** What its slow tier does; Andes has none: what it preempts is computed again. */
  readonly tier: readonly string[]
}

const slow = ['--kv-slow', 'memory'] as const
const files = ['--kv-slow', 'file'] as const
const none = ['--kv-slow', 'none'] as const

const table = {
  fcfs: { policy: 'fcfs', tier: none },
  chunked: { policy: 'chunked', tier: none },
  andes: { policy: 'andes', tier: none },
  tokenflow: { policy: 'tokenflow', tier: slow },
  default: { policy: stepDefaults.policy, tier: none },
  // After a restart.
  files: { policy: 'tokenflow', tier: files },
  // The ablation, Table 2.
  'no offload': { policy: 'tokenflow', tier: none },
  'no write-through': { policy: 'tokenflow', tier: [...slow, '--no-kv-write-through'] },
  'no overlap': { policy: 'tokenflow', tier: [...slow, '--no-kv-overlap'] },
} as const satisfies Record<string, Server>

export type ServerName = keyof typeof table
export const servers: Readonly<Record<ServerName, Server>> = table

/** The policies that are compared. */
export const policies = ['fcfs', 'chunked', 'andes', 'tokenflow'] as const satisfies readonly ServerName[]
/** Those before a crowd of readers. */
export const crowdServers = ['fcfs', 'default', 'tokenflow'] as const satisfies readonly ServerName[]
/** What the ablation leaves out, one at a time. */
export const ablated = ['no offload', 'no write-through', 'no overlap'] as const satisfies readonly ServerName[]

/** Options of `bridge run` in the laboratory's program. */
export function argsOf(name: ServerName): string[] {
  const { policy, tier } = servers[name]
  const isOwn = (policyNames as readonly string[]).includes(policy)
  return [isOwn ? '--serving-policy' : '--baseline', policy, ...tier]
}
