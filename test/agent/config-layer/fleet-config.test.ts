import { describe, expect, it } from 'vitest'
import { FleetConfig, type FleetSettings } from '../../../agent/config-layer/fleet-config.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Flag } from '../../../core/kit/cli/flags.ts'
import type { Settings, SettingValue } from '../../../core/kit/config-file/setting.ts'
import type { TrialState } from '../../../core/policy/trial/trial.ts'

const flag = (name: string, isFleets = true): Flag => ({
  name,
  path: [name],
  type: 'number',
  isList: false,
  isRequired: false,
  help: '',
  fallback: undefined,
  choices: undefined,
  alias: undefined,
  conflicts: undefined,
  isFleets,
})
const flags = [flag('telemetry'), flag('heartbeat'), flag('slm'), flag('threads', false)]

/** No interval is above 60 s, and telemetry is no rarer than the heartbeat. */
function check(settings: Settings): void {
  const numberOf = (name: string, fallback: number) => Number(settings.get(name)?.value ?? fallback)
  const [telemetry, heartbeat] = [numberOf('telemetry', 5), numberOf('heartbeat', 30)]
  if (telemetry > 60 || heartbeat > 60 || telemetry > heartbeat) throw new BrimError('CONFIG_INVALID', 'refused')
}

/** The layer that an agent with this file starts with. */
function startedWith(state: TrialState<FleetSettings>): Record<string, SettingValue> {
  const file = { state, set: (next: TrialState<FleetSettings>) => next }
  const layer = new FleetConfig({ file, flags, owner: new Map(), check }).start()
  for (const { source } of layer.values()) expect(source).toBe('fleet')
  return Object.fromEntries([...layer].map(([name, { value }]) => [name, value]))
}

describe('an agent starts with the options of the fleet', () => {
  it.each<[string, FleetSettings, FleetSettings]>([
    ['that this release knows', { telemetry: 2, 'of-a-newer-release': 1 }, { telemetry: 2 }],
    ['that are not the owner’s alone', { telemetry: 2, threads: 3 }, { telemetry: 2 }],
    ['whose values it accepts', { telemetry: 2, heartbeat: 600 }, { telemetry: 2 }],
    ['that are ids of models, no paths', { telemetry: 2, slm: ['/etc/passwd'] }, { telemetry: 2 }],
    [
      'as they are, where all are right',
      { telemetry: 2, heartbeat: 20, slm: ['0a1b2c'] },
      { telemetry: 2, heartbeat: 20, slm: ['0a1b2c'] },
    ],
  ])('%s', (_, kept, expected) => {
    expect(startedWith({ kept })).toEqual(expected)
  })

  it('or with none of them, where each alone is right, but not all together', () => {
    expect(startedWith({ kept: { telemetry: 20, heartbeat: 30 } })).toEqual({ telemetry: 20, heartbeat: 30 })
    expect(startedWith({ kept: { telemetry: 20, heartbeat: 10 } })).toEqual({})
  })

  it('on trial in place of those that are kept', () => {
    const trial = { change: { telemetry: 3, threads: 1 }, job: 'j', starts: 0 }
    expect(startedWith({ kept: { telemetry: 2 }, trial })).toEqual({ telemetry: 3 })
    expect(startedWith({})).toEqual({})
  })
})
