#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/input_file.hpp"
#include "checkpoint/qwen4_exp.hpp"
#include "checkpoint/qwen4_exp_files.hpp"

namespace ple {
namespace {

using test::filled_tensor;
using test::SmallQwen4Exp;
using test::TempDirectory;
using test::tensor_of;
using testing::HasSubstr;
using Tensors = std::vector<test::FileTensor>;

Result<ModelSpec> open(const SmallQwen4Exp& files, const Tensors& tensors) {
  TempDirectory directory;
  files.write(directory, tensors);
  return open_checkpoint(directory.path());
}

void expect_refused(const Tensors& tensors, const std::string& reason) {
  const auto model = open({}, tensors);
  ASSERT_FALSE(model.is_ok());
  EXPECT_THAT(model.status().message(), HasSubstr(reason));
}

TEST(Qwen4ExpCheckpoint, OpensThePublicLayout) {
  const auto opened = open_checkpoint(std::string(PLE_TEST_DATA) + "/golden/qwen4_exp/tiny");
  ASSERT_TRUE(opened.is_ok()) << opened.status().message();
  const ModelSpec& model = opened.value();
  EXPECT_EQ(model.family, Family::qwen4_exp);
  EXPECT_EQ(model.vocab_size, 512);
  EXPECT_EQ(model.files.size(), 7U);
  ASSERT_EQ(model.layers.size(), 2U);
  EXPECT_TRUE(model.has_tensors());
  const LayerSpec& layer = model.layers[1];
  EXPECT_EQ(layer.layer_index, 2);
  EXPECT_EQ(layer.table.row_count, 35072U);
  EXPECT_EQ(layer.table.encoding.format, RowFormat::bf16);
  EXPECT_EQ(layer.table.encoding.dim, 4);
  ASSERT_EQ(layer.table.shards.size(), 4U);
  EXPECT_EQ(layer.table.shards[3].row_begin, 3 * 8768U);
  const auto& parts = std::get<Qwen4ExpLayer>(layer.parts);
  EXPECT_EQ(parts.hidden, 64);
  EXPECT_EQ(parts.stream_count, 4);
  EXPECT_EQ(parts.embed_dim, 64);
  EXPECT_EQ(parts.tap_count, 4);
  EXPECT_EQ(parts.dilation, 3);
  EXPECT_EQ(parts.eps, 1e-6F);
  EXPECT_EQ(parts.conv.name, "model.layers.2.ple.conv1d.weight");
  EXPECT_EQ(dense_tensors(layer).size(), 6U);
}

TEST(Qwen4ExpCheckpoint, FindsEveryRowWhereTheShardsPutIt) {
  const SmallQwen4Exp files;
  for (const std::int64_t shard_rows :
       {1, 7, 8, 30, 44, 87, 88}) {  // up to 88 shards, numerically ordered
    SmallQwen4Exp cut = files;
    cut.shard_rows = shard_rows;
    TempDirectory directory;
    cut.write(directory, cut.dense() + cut.table());
    const auto model = open_checkpoint(directory.path());
    ASSERT_TRUE(model.is_ok()) << model.status().message();
    const TableSpec& table = model.value().layers[0].table;
    ASSERT_EQ(table.shards.size(), static_cast<std::size_t>((88 + shard_rows - 1) / shard_rows));
    const InputFile data = InputFile::open(model.value().files[0].path).value();
    for (const ShardExtent& shard : table.shards) {
      for (std::uint64_t i = 0; i < shard.row_count; ++i) {
        std::vector<std::byte> row(table.part_bytes[0]);
        ASSERT_TRUE(data.read(shard.offset + i * row.size(), row).is_ok());
        EXPECT_EQ(row, std::vector<std::byte>(6, static_cast<std::byte>(shard.row_begin + i)));
      }
    }
  }
}

TEST(Qwen4ExpCheckpoint, KnowsBothPrefixesTextConfigAndTheUnshardedTable) {
  SmallQwen4Exp files;
  const auto plain = open(files, files.dense() + files.table() + files.constants());
  ASSERT_TRUE(plain.is_ok()) << plain.status().message();

  files.prefix = "model.language_model.layers.1.ple.";
  files.config = {{"model_type", "qwen4_exp"}, {"text_config", files.config}};
  Tensors whole = files.table();
  whole[0] = {files.table_name() + ".weight", DType::bf16, {88, 3}, files.row_bytes(0, 88, 6)};
  whole.resize(1);
  const auto nested = open(files, files.dense() + whole);
  ASSERT_TRUE(nested.is_ok()) << nested.status().message();
  EXPECT_EQ(nested.value().layers[0].table.shards.size(), 1U);
  // The same model in other files is the same model.
  EXPECT_EQ(nested.value().geometry_identity, plain.value().geometry_identity);
  EXPECT_EQ(nested.value().weights_identity, plain.value().weights_identity);
}

TEST(Qwen4ExpCheckpoint, TellsModelsApartByIdentity) {
  SmallQwen4Exp files;
  const ModelSpec base = open(files, files.dense() + files.table()).value();
  Tensors other = files.dense();
  other[1].bytes[0] = 1;
  const ModelSpec dense = open(files, other + files.table()).value();
  EXPECT_EQ(dense.geometry_identity, base.geometry_identity);
  EXPECT_NE(dense.weights_identity, base.weights_identity);
  other = files.table();
  other[0].bytes[0] = 1;
  EXPECT_NE(open(files, files.dense() + other).value().weights_identity, base.weights_identity);
  files.config["rms_norm_eps"] = 1e-5;
  EXPECT_NE(open(files, files.dense() + files.table()).value().geometry_identity,
            base.geometry_identity);
}

TEST(Qwen4ExpCheckpoint, RefusesTablesThatDoNotAddUp) {
  const SmallQwen4Exp files;
  Tensors table = files.table();
  expect_refused(files.dense() + Tensors{table[0], table[1]},
                 "has 60 rows in 2 tensors, its geometry needs 88");
  expect_refused(files.dense() + Tensors{table[0], table[2]},
                 "lacks shard_1.weight (shard_2 is there)");
  expect_refused(
      files.dense(),
      "lacks tensor 'model.layers.1.ple.ple_embedding.ngram_embedding.weight' or its shards");
  Tensors grown = table;
  grown[2] = filled_tensor(table[2].name, DType::bf16, {29, 3});
  expect_refused(files.dense() + grown, "has 89 rows in 3 tensors, its geometry needs 88");
  Tensors uneven = table;
  uneven[0] = filled_tensor(table[0].name, DType::bf16, {29, 3});
  uneven[1] = filled_tensor(table[1].name, DType::bf16, {31, 3});
  expect_refused(files.dense() + uneven, "shard_1.weight' has 31 rows: shards of");
  Tensors narrow = table;
  narrow[1] = filled_tensor(table[1].name, DType::bf16, {30, 2});
  expect_refused(files.dense() + narrow, "is BF16 [30, 2], expected BF16 [rows, 3]");
  Tensors mixed = table;
  mixed[1] = filled_tensor(table[1].name, DType::f16, {30, 3});
  expect_refused(files.dense() + mixed, "is F16 [30, 3], expected BF16 [rows, 3]");
  expect_refused(files.dense() + table +
                     Tensors{filled_tensor(files.table_name() + ".weight", DType::bf16, {88, 3})},
                 "is there both whole and in 3 shards");
}

TEST(Qwen4ExpCheckpoint, AllowsEmptyShardsBehindTheLast) {
  const SmallQwen4Exp files;
  const Tensors empty = {
      filled_tensor(files.table_name() + ".shard_3.weight", DType::bf16, {0, 3})};
  EXPECT_TRUE(open(files, files.dense() + files.table() + empty).is_ok());
}

TEST(Qwen4ExpCheckpoint, ReadsFp8RowsWithTheirScale) {
  const SmallQwen4Exp files;
  const std::string name = files.table_name() + ".weight_scale";
  const Tensors codes = files.dense() + files.table(DType::f8_e4m3);
  const auto f32 = open(files, codes + Tensors{tensor_of<float>(name, DType::f32, {}, {0.25F})});
  ASSERT_TRUE(f32.is_ok()) << f32.status().message();
  EXPECT_EQ(f32.value().layers[0].table.encoding.format, RowFormat::fp8_e4m3);
  EXPECT_EQ(f32.value().layers[0].table.encoding.scale, 0.25F);
  EXPECT_EQ(f32.value().layers[0].table.encoding.row_bytes, 3);
  const auto bf16 =
      open(files, codes + Tensors{tensor_of<std::uint16_t>(name, DType::bf16, {1}, {0x3F80})});
  ASSERT_TRUE(bf16.is_ok()) << bf16.status().message();
  EXPECT_EQ(bf16.value().layers[0].table.encoding.scale, 1.0F);
}

TEST(Qwen4ExpCheckpoint, ReadsScalesPerRowAndPerBlock) {
  const SmallQwen4Exp files;
  const std::string name = files.table_name();
  const Tensors codes = {filled_tensor(name + ".weight", DType::i8, {88, 3})};
  const auto int8 =
      open(files, files.dense() + codes +
                      Tensors{filled_tensor(name + ".weight_scale", DType::f32, {88, 1})});
  ASSERT_TRUE(int8.is_ok()) << int8.status().message();
  const TableSpec& table = int8.value().layers[0].table;
  EXPECT_EQ(table.encoding.format, RowFormat::int8_row);
  EXPECT_EQ(table.part_bytes, (std::vector<std::uint32_t>{3, 4}));
  ASSERT_EQ(table.shards.size(), 2U);
  EXPECT_EQ(table.shards[1].part, 1U);
  EXPECT_EQ(table.shards[1].row_count, 88U);
  expect_refused(
      files.dense() + codes + Tensors{filled_tensor(name + ".weight_scale", DType::f32, {87})},
      "has 87 rows in 1 tensors");
}

TEST(Qwen4ExpCheckpoint, ReadsInterleavedRows) {
  const SmallQwen4Exp files;
  const std::string name = files.table_name();
  const Tensors rows = {filled_tensor(name + ".rows_int8_row", DType::u8, {88, 7})};
  const auto opened = open(files, files.dense() + rows);
  ASSERT_TRUE(opened.is_ok()) << opened.status().message();
  const TableSpec& table = opened.value().layers[0].table;
  EXPECT_EQ(table.encoding.format, RowFormat::int8_row);
  EXPECT_EQ(table.part_bytes, (std::vector<std::uint32_t>{7}));
  expect_refused(files.dense() + rows + files.table(), "holds interleaved rows and tensor");
  expect_refused(
      files.dense() + Tensors{filled_tensor(name + ".rows_int8_row", DType::u8, {88, 8})},
      "is U8 [88, 8], expected U8 [rows, 7]");
  expect_refused(
      files.dense() + Tensors{filled_tensor(name + ".rows_int8_row", DType::i8, {88, 7})},
      "holds I8 as rows of 3 elements");
  expect_refused(files.dense() + Tensors{filled_tensor(name + ".rows_nvfp4", DType::u8, {88, 7})},
                 "holds U8 as rows of 3 elements in .rows_nvfp4");
}

TEST(Qwen4ExpCheckpoint, RefusesEncodingsItDoesNotKnowByName) {
  const SmallQwen4Exp files;
  const std::string name = files.table_name();
  const auto scale = [&](float value) {
    return Tensors{tensor_of<float>(name + ".weight_scale", DType::f32, {1}, {value})};
  };
  expect_refused(files.dense() + files.table(DType::f8_e4m3),
                 "has F8_E4M3 rows but no weight_scale");
  expect_refused(files.dense() + files.table(DType::i8), "has I8 rows but no weight_scale");
  expect_refused(files.dense() + files.table(DType::f8_e5m2),
                 "has F8_E5M2 rows, an encoding not known here");
  expect_refused(files.dense() + files.table(DType::i64),
                 "has I64 rows, an encoding not known here");
  expect_refused(files.dense() + files.table() + scale(1.0F), "has BF16 rows and a scale");
  expect_refused(files.dense() + files.table(DType::f8_e4m3) + scale(0.0F), "weight_scale' is 0");
  expect_refused(files.dense() + files.table(DType::f8_e4m3) + scale(NAN), "weight_scale' is nan");
  expect_refused(files.dense() + files.table(DType::f8_e4m3) +
                     Tensors{filled_tensor(name + ".weight_scale", DType::f16, {88})},
                 "has F8_E4M3 rows with scales of F16 [88], an encoding not known here");
}

TEST(Qwen4ExpCheckpoint, RefusesConstantsThatDifferFromTheConfig) {
  const SmallQwen4Exp files;
  const Tensors base = files.dense() + files.table();
  for (const std::size_t which : {0, 1, 2}) {
    Tensors constants = files.constants();
    constants[which].bytes[8] ^= 2;
    expect_refused(base + constants, constants[which].name + "' [1] is");
  }
  Tensors shorter = files.constants();
  shorter[0] = filled_tensor(shorter[0].name, DType::i64, {2});
  expect_refused(base + shorter, "is I64 [2], expected I64 [3]");
  // A wrong seed shows in the multipliers: every shape is right, the model would be quietly worse.
  SmallQwen4Exp seeded;
  seeded.config["seed"] = 0;
  const auto model = open(seeded, base + files.constants());
  ASSERT_FALSE(model.is_ok());
  EXPECT_THAT(model.status().message(), HasSubstr("layer_multipliers' [0] is"));
}

TEST(Qwen4ExpCheckpoint, RefusesDenseTensorsOfAnotherShapeOrType) {
  const SmallQwen4Exp files;
  for (std::size_t i = 0; i < files.dense().size(); ++i) {
    Tensors dense = files.dense();
    const auto original = dense[i];
    dense.erase(dense.begin() + static_cast<std::ptrdiff_t>(i));
    expect_refused(dense + files.table(), "'" + original.name + "'");
    auto shape = original.shape;
    shape[0] += 1;
    expect_refused(
        dense + Tensors{filled_tensor(original.name, DType::bf16, shape)} + files.table(),
        "tensor '" + original.name + "' is BF16 [");
    expect_refused(
        dense + Tensors{filled_tensor(original.name, DType::f32, original.shape)} + files.table(),
        "tensor '" + original.name + "' is F32 [");
  }
}

TEST(Qwen4ExpCheckpoint, RefusesTheSameLayerUnderBothPrefixes) {
  SmallQwen4Exp files;
  const Tensors plain = files.dense() + files.table();
  files.prefix = "model.language_model.layers.1.ple.";
  expect_refused(plain + files.dense() + files.table(), "under both");
}

// The description of SmallQwen4Exp by a caller that loads weights itself.
ModelSpec described(const SmallQwen4Exp& files, const Tensors& dense, const std::string& rows) {
  ModelSpec model = qwen4_exp_model({.vocab_size = 64,
                                     .hidden = 5,
                                     .stream_count = 2,
                                     .embed_dim = 12,
                                     .heads_per_ngram = 2,
                                     .ngram_vocab_size_base = 17,
                                     .row_divisor = 4,
                                     .eos_token = 1,
                                     .layers = {1}},
                                    "a description")
                        .value();
  LayerSpec& layer = model.layers[0];
  auto& parts = std::get<Qwen4ExpLayer>(layer.parts);
  TensorRef* const tensors[] = {&parts.key,        &parts.value,     &parts.norm_key,
                                &parts.norm_query, &parts.norm_conv, &parts.conv};
  for (std::size_t i = 0; i < dense.size(); ++i) {
    *tensors[i] = {.name = dense[i].name,
                   .dtype = DType::bf16,
                   .shape = dense[i].shape,
                   .bytes = dense[i].bytes.size(),
                   .data = reinterpret_cast<const std::byte*>(dense[i].bytes.data())};
  }
  layer.table = {.row_count = 88,
                 .encoding = {.format = RowFormat::bf16, .dim = 3, .row_bytes = 6},
                 .part_bytes = {6},
                 .shards = {{.row_begin = 0,
                             .row_count = 88,
                             .data = reinterpret_cast<const std::byte*>(rows.data())}}};
  static_cast<void>(files);
  return model;
}

TEST(Qwen4ExpDescription, IsTheSameModelAsTheFiles) {
  const SmallQwen4Exp files;
  const Tensors dense = files.dense();
  const std::string rows = files.row_bytes(0, 88, 6);
  ModelSpec model = described(files, dense, rows);
  const Status finished = finish_model(model);
  ASSERT_TRUE(finished.is_ok()) << finished.message();
  const ModelSpec opened = open(files, files.dense() + files.table()).value();
  EXPECT_EQ(model.geometry_identity, opened.geometry_identity);
  EXPECT_EQ(model.weights_identity, opened.weights_identity);
}

TEST(Qwen4ExpDescription, IsCheckedLikeAFile) {
  const SmallQwen4Exp files;
  const Tensors dense = files.dense();
  const std::string rows = files.row_bytes(0, 88, 6);
  const auto refuse = [&](auto&& change, const std::string& reason) {
    ModelSpec model = described(files, dense, rows);
    change(model, model.layers[0].table, std::get<Qwen4ExpLayer>(model.layers[0].parts));
    EXPECT_THAT(finish_model(model).message(), HasSubstr(reason));
  };
  refuse([](auto&, auto&, auto& parts) { parts.key = {}; }, "tensor 'key_proj.weight' is missing");
  refuse(
      [](auto&, auto&, auto& parts) {
        parts.conv.shape = {10, 4};
      },
      "is BF16 [10, 4], expected BF16 [10, 1, 4]");
  refuse([](auto&, auto&, auto& parts) { parts.value.data = nullptr; },
         "is in file 0, but the model has 0");
  refuse([](auto&, auto& table, auto&) { table.row_count = 87; },
         "has 87 rows, its geometry needs 88");
  refuse([](auto&, auto& table, auto&) { table.shards[0].row_count = 87; },
         "its extents end at row 87 of 88");
  refuse([](auto&, auto& table, auto&) { table.shards[0].row_count = 89; },
         "an extent holds 89 rows from 0");
  refuse([](auto&, auto& table, auto&) { table.shards[0].row_begin = 1; },
         "an extent holds 88 rows from 1, after row 0");
  refuse([](auto&, auto& table, auto&) { table.shards[0].part = 1; },
         "its extents end at row 0 of 88");
  refuse([](auto&, auto& table, auto&) { table.shards.push_back(table.shards[0]); },
         "an extent holds 88 rows from 0, after row 88");
  refuse([](auto&, auto& table, auto&) { table.part_bytes = {5}; },
         "rows of 6 bytes in parts of 5");
  refuse([](auto&, auto& table, auto&) { table.encoding.dim = 4; },
         "its encoding of 4 elements needs 8");
}

TEST(Qwen4ExpDescription, MustLieInsideItsFiles) {
  const SmallQwen4Exp files;
  const Tensors dense = files.dense();
  const std::string rows = files.row_bytes(0, 88, 6);
  TempDirectory directory;
  const std::string path = directory.write("rows", "12345" + rows);
  ModelSpec model = described(files, dense, rows);
  model.files = {{.path = path}};
  model.layers[0].table.shards[0].data = nullptr;
  model.layers[0].table.shards[0].offset = 5;
  EXPECT_TRUE(finish_model(model).is_ok());
  EXPECT_EQ(model.files[0].bytes, 5 + rows.size());
  model.layers[0].table.shards[0].offset = 6;
  EXPECT_THAT(finish_model(model).message(), HasSubstr("528 bytes at 6 lie beyond"));
  model.layers[0].table.shards[0].offset = ~std::uint64_t{0} - 100;
  EXPECT_FALSE(finish_model(model).is_ok());
}

}  // namespace
}  // namespace ple
