import { z } from 'zod'
import { visibleLine } from '../../kit/base/visible-text.ts'

/** What may be asked to compute: the names of options. */
export const ProviderName = z
  .string()
  .regex(
    /^(?:auto|cpu|webgpu|cuda|\w{1,46}ExecutionProvider)$/,
    'must be auto, cpu, webgpu, cuda, or the name of a provider of ONNX Runtime, such as QNNExecutionProvider',
  )

/** Text of libraries and of devices, which people see: one line without control characters, cut where it is too long. */
const lineOf = (maxLength: number) =>
  z
    .string()
    .overwrite((text) => {
      const line = visibleLine(text)
      return line.length <= maxLength ? line : `${line.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '')}…`
    })
    .max(maxLength)

/** What computes a model, as users see it. */
export const ShownComputing = z.object({
  provider: lineOf(64).describe('cpu, webgpu, cuda, or the name of a provider of ONNX Runtime.'),
  reason: lineOf(512).describe('Why: asked for, measured as faster, or what keeps a GPU from it.'),
  failed: z.boolean().optional().describe('True: there is a driver of a GPU, but its provider failed.'),
})
export type ShownComputing = z.infer<typeof ShownComputing>

/** What computes the models of a device. */
export const DeviceComputing = z.object({
  llm: ShownComputing.optional().describe("The device's parts of the split model."),
  slm: ShownComputing.optional().describe("The agent's own small model."),
})
export type DeviceComputing = z.infer<typeof DeviceComputing>
