import { expect, it } from 'vitest'
import { z } from 'zod'
import { options } from '../../../agent/commands/run.ts'
import { flagsOf } from '../../../core/kit/cli/flags.ts'
import { fleetOptions } from '../../../core/wire/protocol/fleet-options.ts'

it('a bridge knows the options that the fleet may set at an agent of its release', () => {
  const settable = flagsOf(z.strictObject(options)).filter(({ isFleets }) => isFleets)
  expect(settable.map(({ name }) => name).sort()).toEqual([...fleetOptions].sort())
})
