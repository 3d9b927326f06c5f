import { expect, it } from 'vitest'
import { openRuntime } from '../../core/model/engine/capi.ts'
import { rowsComputedRight } from '../../core/model/engine/check-attention.ts'
import { cpuProvider } from '../../core/model/engine/provider.ts'
import type { Runtime } from '../../core/model/engine/runtime.ts'
import { softwareGpu } from '../support/software-gpu.ts'

const gpu = softwareGpu()

it('allows any number of rows where attention of many is right', async () => {
  const runtime = await openRuntime({ provider: { ...cpuProvider, compute: 'fp16' } })
  expect(runtime.device?.maxRows).toBeUndefined()
  await runtime.close()
})

it.skipIf(!gpu)('finds that a device with groups of four threads computes 32 rows wrong', async () => {
  const runtime = await openRuntime({ provider: gpu! })
  expect(runtime.device?.maxRows).toBe(31)
  await runtime.close()
})

it('refuses a device that computes attention of few rows wrong', async () => {
  const runtime = await openRuntime({ provider: { ...cpuProvider, compute: 'fp32' } })
  const idle: Runtime = Object.create(runtime, {
    info: { value: runtime.info },
    tensor: { value: runtime.tensor.bind(runtime) },
    session: { value: async () => ({ inputNames: [], outputNames: [], run: async () => {}, release: async () => {} }) },
  })
  const refused = { code: 'PROVIDER_UNAVAILABLE', message: expect.stringContaining('computes attention wrong') }
  await expect(rowsComputedRight(idle, runtime.device!)).rejects.toMatchObject(refused)
  await runtime.close()
})
