import { defineCommand } from '../../../core/kit/cli/command.ts'
import { layOutTable } from '../../plot/table.ts'
import { boards, gpus, models } from '../hardware/presets/presets.ts'

export const command = defineCommand({
  examples: [
    ['brim simulate presets', 'GPUs, boards and models that scenarios name'],
    ['brim simulate presets --json', 'with all their figures and sources'],
  ],
  options: {},
  run({ json }, io) {
    if (json) return io.out(JSON.stringify({ gpus, boards, models }))
    const gb = (bytes: number) => (bytes / 1e9).toFixed(0)
    const hardwareHead = ['memory, GB', 'GB/s', 'TFLOP/s', 'source']
    const rows = ({ memoryBytes, bytesPerS, flopPerS }: (typeof gpus)[number]) => [
      gb(memoryBytes),
      gb(bytesPerS),
      String(Number((flopPerS / 1e12).toPrecision(3))),
    ]
    const tables = [
      layOutTable(
        ['GPU', ...hardwareHead],
        gpus.map((gpu) => [gpu.name, ...rows(gpu), gpu.source]),
      ),
      layOutTable(
        ['board', ...hardwareHead],
        boards.map((board) => [board.name, ...rows(board.hardware), board.source]),
      ),
      layOutTable(
        ['model', 'layers', 'hidden', 'KV heads', 'vocabulary', 'source'],
        models.map(({ name, layers, hidden, kvHeads, vocabulary, source }) => [
          name,
          String(layers),
          String(hidden),
          String(kvHeads),
          String(vocabulary),
          source,
        ]),
      ),
    ]
    io.out(tables.map((lines) => lines.join('\n')).join('\n\n'))
    io.out('\nRates are those that serving reaches, not those of data sheets.')
  },
})
