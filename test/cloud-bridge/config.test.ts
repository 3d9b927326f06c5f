import { expect, it } from 'vitest'
import { readBridgeConfig } from '../../cloud-bridge/config.ts'

it.each([
  ['decode-first', undefined, 'none'],
  ['tokenflow', undefined, 'memory'],
  ['tokenflow', 'none', 'none'],
  ['decode-first', 'file', 'file'],
] as const)('with the policy %s and --kv-slow %s preempted KV goes to: %s', (servingPolicy, kvSlow, expected) => {
  const config = readBridgeConfig({ bundle: 'x', stateDir: 'y', servingPolicy, ...(kvSlow && { kvSlow }) })
  expect(config.kvSlow).toBe(expected)
})
