import { z } from 'zod'
import { FleetRow } from './http/devices.ts'
import { v } from './version.ts'

/**
 * Retained on bridge/<id>/home/<device>: the latest figures of a device, so that a program that has just connected has them at
 * once. Complete, whether or not the device's telemetry comes as deltas.
 */
export const HomeState = FleetRow.omit({
  ...{ id: true, module: true, agent: true, model: true },
  ...{ seenS: true, labels: true, unusable: true },
}).extend({ v })
export type HomeState = z.infer<typeof HomeState>

/** On bridge/<id>/drain/<device>, not retained. */
export const DrainRequest = z.object({
  v,
  type: z.enum(['drain', 'undrain']).describe('`drain`: the device is to take no new jobs; `undrain`: to take jobs again.'),
})
export type DrainRequest = z.infer<typeof DrainRequest>
