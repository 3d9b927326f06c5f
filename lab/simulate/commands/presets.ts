import { defineCommand } from '../../../core/kit/cli/command.ts'
import { tableOf, toShort } from '../../frame/tables.ts'
import { layOutTable } from '../../plot/table.ts'
import { boards, gpus, models } from '../hardware/presets/presets.ts'
import type { Hardware } from '../hardware/roofline.ts'

export const command = defineCommand({
  examples: [
    ['brim simulate presets', 'GPUs, boards and models that scenarios name'],
    ['brim simulate presets --json', 'with all their figures and sources'],
  ],
  options: {},
  run({ json }, io) {
    if (json) return io.out(JSON.stringify({ gpus, boards, models }))
    const machines = (kind: string, machines: readonly Hardware[]) =>
      tableOf(kind, machines, [
        [kind, ({ name }) => name],
        ['memory, GB', ({ memoryBytes }) => (memoryBytes / 1e9).toFixed(0)],
        ['GB/s', ({ bytesPerS }) => (bytesPerS / 1e9).toFixed(0)],
        ['TFLOP/s', ({ flopPerS }) => toShort(flopPerS / 1e12, 3)],
        ['source', ({ source }) => source],
      ])
    const tables = [
      machines('GPU', gpus),
      machines(
        'board',
        boards.map(({ hardware }) => hardware),
      ),
      tableOf('model', models, [
        ['model', ({ name }) => name],
        ['layers', ({ layers }) => String(layers)],
        ['hidden', ({ hidden }) => String(hidden)],
        ['KV heads', ({ kvHeads }) => String(kvHeads)],
        ['vocabulary', ({ vocabulary }) => String(vocabulary)],
        ['source', ({ source }) => source],
      ]),
    ]
    io.out(tables.map(({ head, rows }) => layOutTable(head, rows).join('\n')).join('\n\n'))
    io.out('\nRates are those that serving reaches, not those of data sheets.')
  },
})
