import type { Hardware } from '../roofline.ts'
import { presetNamed } from './preset-named.ts'

/** What the maker states. */
interface DataSheet {
  readonly name: string
  readonly gibibytes: number
  readonly gigabytesPerS: number
  /** Dense, fp16 with sums in fp32. */
  readonly teraflopPerS: number
  /** PCIe, each way. */
  readonly hostGigabytesPerS: number
  /** NVLink, each way; undefined: through PCIe. */
  readonly peerGigabytesPerS?: number
  readonly source: string
}

/**
 * Shares of the data sheet's rates that serving reaches, the same for every GPU. Memory, and the time per layer of a step:
 * PICE's Table I (six models on A100, tokens/s of one stream). Compute: HAT's 2,000 tokens through 30 layers of Vicuna-7B in
 * 0.28 s on an A6000 (§2.3). PCIe: what copies of pinned memory reach.
 */
export const reached = { memory: 0.85, compute: 0.6, host: 0.8, layerS: 0.12e-3 }

const dataSheets: readonly DataSheet[] = [
  {
    name: 'a6000',
    gibibytes: 48,
    gigabytesPerS: 768,
    teraflopPerS: 154.8,
    hostGigabytesPerS: 31.5,
    source: 'NVIDIA RTX A6000 data sheet: 48 GB GDDR6, 768 GB/s, 309.7 TFLOPS with sparsity, PCIe 4.0 x16',
  },
  {
    name: 'a40',
    gibibytes: 48,
    gigabytesPerS: 696,
    teraflopPerS: 149.7,
    hostGigabytesPerS: 31.5,
    source: 'NVIDIA A40 data sheet: 48 GB GDDR6, 696 GB/s, 149.7 TFLOPS dense, PCIe 4.0 x16',
  },
  {
    name: 'a100-40',
    gibibytes: 40,
    gigabytesPerS: 1_555,
    teraflopPerS: 312,
    hostGigabytesPerS: 31.5,
    source: 'NVIDIA A100 40GB data sheet: 1,555 GB/s, 312 TFLOPS dense, PCIe 4.0 x16',
  },
  {
    name: 'a100-80',
    gibibytes: 80,
    gigabytesPerS: 1_935,
    teraflopPerS: 312,
    hostGigabytesPerS: 31.5,
    source: 'NVIDIA A100 80GB PCIe data sheet: 1,935 GB/s (as PICE Table II), 312 TFLOPS dense, PCIe 4.0 x16',
  },
  {
    name: 'rtx-4090',
    gibibytes: 24,
    gigabytesPerS: 1_008,
    teraflopPerS: 165.2,
    hostGigabytesPerS: 31.5,
    source:
      'NVIDIA Ada GPU architecture white paper: 24 GB GDDR6X, 1,008 GB/s, 165.2 TFLOPS dense with sums in fp32, PCIe 4.0 x16',
  },
  {
    name: 'h100',
    gibibytes: 80,
    gigabytesPerS: 3_350,
    teraflopPerS: 989.5,
    hostGigabytesPerS: 63,
    peerGigabytesPerS: 450,
    source: 'NVIDIA H100 SXM data sheet: 80 GB HBM3, 3.35 TB/s, 1,979 TFLOPS with sparsity, PCIe 5.0 x16, NVLink 900 GB/s',
  },
  {
    name: 'h200',
    gibibytes: 141e9 / 2 ** 30,
    gigabytesPerS: 4_800,
    teraflopPerS: 989.5,
    hostGigabytesPerS: 63,
    peerGigabytesPerS: 450,
    source: 'NVIDIA H200 SXM data sheet: 141 GB HBM3e, 4.8 TB/s, 1,979 TFLOPS with sparsity, PCIe 5.0 x16, NVLink 900 GB/s',
  },
  {
    name: 'ascend-910b',
    gibibytes: 64,
    gigabytesPerS: 1_600,
    teraflopPerS: 313,
    hostGigabytesPerS: 31.5,
    source:
      'Huawei Atlas 800T A2 server, per NPU: 64 GB HBM, 1.6 TB/s, 313 TFLOPS fp16 (910B3; other variants differ), PCIe 4.0 x16',
  },
]

export const gpus: readonly Hardware[] = dataSheets.map((sheet) => ({
  name: sheet.name,
  memoryBytes: sheet.gibibytes * 2 ** 30,
  bytesPerS: reached.memory * sheet.gigabytesPerS * 1e9,
  flopPerS: reached.compute * sheet.teraflopPerS * 1e12,
  layerS: reached.layerS,
  streamS: 0,
  hostBytesPerS: reached.host * sheet.hostGigabytesPerS * 1e9,
  peerBytesPerS: reached.host * (sheet.peerGigabytesPerS ?? sheet.hostGigabytesPerS) * 1e9,
  gpus: 1,
  source: sheet.source,
}))

/** @throws BrimError USAGE */
export const gpuNamed = (name: string): Hardware => presetNamed(gpus, 'GPU', name)
