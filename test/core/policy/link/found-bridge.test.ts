import { describe, expect, it } from 'vitest'
import { unusedBridge } from '../../../../core/policy/link/found-bridge.ts'

const found = { id: 'bridge-1', fleet: 'default', version: '0.3.0', url: 'https://10.0.0.5:7070/' }
const agent = { id: 'jetson-01', fleet: 'default', version: '0.3.0+72ab0c0', stateDir: '/var/lib/brim/agent' }
const enrol =
  'at the bridge: brim bridge token create --out token; here, with that file: brim agent enroll --id jetson-01 --state-dir /var/lib/brim/agent --token-file token'

describe('a bridge that was found in the network', () => {
  it.each([
    ['the device is not enrolled', {}, 'this device is not enrolled there', enrol],
    [
      'of another fleet',
      { fleet: 'attic' },
      "its fleet is attic, this agent's default",
      `${enrol}; then run the agent with --fleet attic`,
    ],
    [
      'of a release too far from this one',
      { version: '0.5.1' },
      "its release is 0.5.1, this agent's 0.3.0+72ab0c0",
      `update one of them; ${enrol}`,
    ],
    ['of the release before', { version: '0.2.9' }, 'this device is not enrolled there', enrol],
    [
      'of another major release',
      { version: '1.3.0' },
      "its release is 1.3.0, this agent's 0.3.0+72ab0c0",
      `update one of them; ${enrol}`,
    ],
  ])('%s', (_, change, why, next) => {
    expect(unusedBridge({ ...found, ...change }, agent)).toEqual({ why, next })
  })

  it('names a state folder as a shell reads it', () => {
    expect(unusedBridge(found, { ...agent, stateDir: "/home/o'neil/my state" }).next).toContain(
      `--state-dir '/home/o'\\''neil/my state'`,
    )
  })
})
